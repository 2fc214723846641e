package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	replyBytes = 1000
	places     = 20 // requests that /hold holds at a time
	held       = 20 * time.Millisecond
)

// seen is what the target counted since it started.
type seen struct {
	Requests    int64   `json:"requests"`
	SpanSeconds float64 `json:"spanSeconds"` // from the first request to the last
	CPUSeconds  float64 `json:"cpuSeconds"`  // of the target
	CapacityRPS float64 `json:"capacityRps"` // of /hold: places ÷ the mean time a request was held; 0 when none was
}

// rateRPS of n arrivals is that of the n−1 gaps between them.
func (s seen) rateRPS() float64 {
	if s.SpanSeconds <= 0 {
		return 0
	}
	return float64(s.Requests-1) / s.SpanSeconds
}

// target answers / at once with 1 kB, and /hold as fast as its places allow.
type target struct {
	count struct{ requests, first, last, busy, released atomic.Int64 }
	slots chan struct{}
}

func (t *target) arrive() {
	now := time.Now().UnixNano()
	t.count.first.CompareAndSwap(0, now)
	t.count.last.Store(now)
	t.count.requests.Add(1)
}

func (t *target) hold() {
	t.slots <- struct{}{}
	start := time.Now()
	time.Sleep(held)
	t.count.busy.Add(int64(time.Since(start)))
	t.count.released.Add(1)
	<-t.slots
}

func (t *target) handler() http.Handler {
	reply := bytes.Repeat([]byte("x"), replyBytes)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		t.arrive()
		_, _ = w.Write(reply) // a client that left is the client's to count
	})
	mux.HandleFunc("GET /hold", func(w http.ResponseWriter, _ *http.Request) {
		t.arrive()
		t.hold()
		_, _ = w.Write(reply)
	})
	mux.HandleFunc("GET /seen", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(t.seen())
	})
	return mux
}

func (t *target) seen() seen {
	var use syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &use) // can't fail with this argument
	s := seen{
		Requests:    t.count.requests.Load(),
		SpanSeconds: time.Duration(t.count.last.Load() - t.count.first.Load()).Seconds(),
		CPUSeconds:  cpuSeconds(&use),
	}
	if busy := time.Duration(t.count.busy.Load()).Seconds(); busy > 0 {
		s.CapacityRPS = places * float64(t.count.released.Load()) / busy
	}
	return s
}

func cpuSeconds(use *syscall.Rusage) float64 {
	return time.Duration(use.Utime.Nano() + use.Stime.Nano()).Seconds()
}

// runTarget serves on a free port of the loopback, prints its URL, and ends with
// stdin: it outlives nobody.
func runTarget(stdin io.Reader, stdout io.Writer) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(stdout, "http://%s\n", listener.Addr()); err != nil {
		return err
	}
	server := &http.Server{Handler: (&target{slots: make(chan struct{}, places)}).handler()}
	go func() {
		_, _ = io.Copy(io.Discard, stdin) // however it ends, it has ended
		_ = server.Close()
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
