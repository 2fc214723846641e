package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// chain hashes one block n times, counting: what work must have done.
func chain(n int) (sum [sha256.Size]byte) {
	h := sha256.New()
	for range n {
		h.Reset()
		h.Write(sum[:])
		h.Sum(sum[:0])
	}
	return sum
}

func TestWorkDoesExactlyItsIterations(t *testing.T) {
	for _, n := range []int{0, 1, 2, 999, 1000} {
		if got, want := work(int64(n)), chain(n); got != want {
			t.Errorf("work(%d) is %x, want %x", n, got, want)
		}
	}
}

func TestWorkEndpointDoesAFixedAmount(t *testing.T) {
	c := newConfig(t)
	s := newTestServer(t, c)
	for _, ms := range []int{1, 7, 30} {
		n := ms * int(c.iterationsPerMs)
		sum := chain(n)
		want := fmt.Sprintf(`{"iterations":%d,"ms":%d,"sum":"%x"}`, n, ms, sum[:8])
		if got := s.want(200, s.get(fmt.Sprintf("/work?ms=%d", ms))).body; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	for _, query := range []string{"", "?ms=", "?ms=0", "?ms=-1", "?ms=10001", "?ms=1.5"} {
		s.want(400, s.get("/work"+query))
	}
}

func TestWorkIsNotBegunForWhoGaveUpWaiting(t *testing.T) {
	s := newTestServer(t, newConfig(t))
	for range cap(s.working) {
		s.working <- struct{}{} // all are busy
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if got := s.work(httptest.NewRequestWithContext(ctx, "GET", "/work?ms=10000", nil)); got.status != http.StatusGatewayTimeout {
		t.Errorf("status %d, want 504", got.status)
	}
	if got := len(s.working); got != cap(s.working) {
		t.Errorf("%d slots are taken, want %d", got, cap(s.working))
	}
	<-s.working
	s.want(200, s.get("/work?ms=1"))
}

func TestCalibrateCountsIterationsPerMillisecond(t *testing.T) {
	perMs, err := calibrate()
	if err != nil {
		t.Fatal(err)
	}
	// From a slow Raspberry Pi to the fastest SHA instructions.
	if perMs < 200 || perMs > 200_000 {
		t.Errorf("%d iterations per ms is no computer's", perMs)
	}
}
