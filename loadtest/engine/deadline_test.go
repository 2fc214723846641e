package engine

import (
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lab/loadtest/analysis"
)

// A connection's deadline is kept from one request to the next. One that passes
// while the connection is idle, or just as a request is posted, must end neither.
func TestTheDeadlineOfAnEarlierRequestEndsNoLaterOne(t *testing.T) {
	const engines, requests = 30, 3
	var connections atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	sc := scenario("/")
	sc.TimeoutMs = 1600
	deadline := 1600*time.Millisecond + 200*time.Millisecond // with its slack
	var all sync.WaitGroup
	for range engines {
		e := newEngine(t, server.URL, sc)
		m := newMeter(analysis.Probe{Seconds: 3600}, time.Now())
		all.Add(1)
		go func() {
			defer all.Done()
			for range requests {
				ask(e, m)
				time.Sleep(deadline - 10*time.Millisecond + time.Duration(rand.Int64N(int64(20*time.Millisecond))))
			}
			if s := m.close(); s.Completed != requests {
				t.Errorf("%d of %d answered: %v", s.Completed, requests, s.Errors)
			}
		}()
	}
	all.Wait()
	if n := connections.Load(); n != engines {
		t.Errorf("%d connections of %d engines: an idle one ended", n, engines)
	}
}

// The deadline is a little late; what is answered until then has timed out all the
// same.
func TestAnAnswerAfterTheTimeoutIsLate(t *testing.T) {
	for name, keep := range map[string]bool{"kept connections": true, "one for each": false} {
		url := serve(t, func(http.ResponseWriter, *http.Request) { time.Sleep(850 * time.Millisecond) })
		sc := scenario("/")
		sc.TimeoutMs, sc.KeepAlive = 800, keep
		e := newEngine(t, url, sc)
		m := newMeter(analysis.Probe{Seconds: 3600}, time.Now())
		ask(e, m)
		ask(e, m)
		if s := m.close(); s.Completed != 0 || s.Errors["timeout"] != 2 {
			t.Errorf("%s: %d answered, errors %v; want two timeouts", name, s.Completed, s.Errors)
		}
	}
}
