package engine

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lab/loadtest/analysis"
)

// ask sends one request as the pacing thread does, and waits for its end.
func ask(e *Engine, m *meter) {
	w := e.worker()
	now := time.Now()
	m.arrive(now, now, false)
	var pending sync.WaitGroup
	pending.Add(1)
	w.give(job{e.pick(), now, now, m, &pending})
	pending.Wait()
}

// hijacked answers a request by hand on its connection, then goes on with it.
func hijacked(t *testing.T, w http.ResponseWriter, answer string) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	_, _ = conn.Write([]byte(answer))
	_ = conn.Close()
}

func TestPostedRequests(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	release := make(chan struct{})
	for _, row := range []struct {
		name        string
		second      func(http.ResponseWriter) // how the second request of a connection is answered
		method      string
		errors      map[string]int64
		connections int32
	}{
		{"are answered on one connection", func(http.ResponseWriter) {}, "GET", nil, 1},
		{"time out", func(http.ResponseWriter) { <-release }, "GET", map[string]int64{"timeout": 2}, 3},
		{"are sent again when the connection ends instead of an answer", func(w http.ResponseWriter) { hijacked(t, w, "") }, "GET", nil, 5},
		{"are not sent again where that isn't safe", func(w http.ResponseWriter) { hijacked(t, w, "") }, "POST", map[string]int64{"reset": 2}, 3},
		{"fail when the answer is cut", func(w http.ResponseWriter) { hijacked(t, w, ok[:len(ok)-1]) }, "GET", map[string]int64{"reset": 2}, 3},
		{"avoid a connection that ended when idle", func(w http.ResponseWriter) { hijacked(t, w, ok) }, "GET", nil, 3},
		{"avoid a connection on which more was said", func(w http.ResponseWriter) { hijacked(t, w, ok+ok) }, "GET", nil, 3},
	} {
		t.Run(row.name, func(t *testing.T) {
			var requests sync.Map // by the client's address: *atomic.Int32
			var connections atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				n, known := requests.LoadOrStore(r.RemoteAddr, new(atomic.Int32))
				if !known {
					connections.Add(1)
				}
				if n.(*atomic.Int32).Add(1) == 2 {
					row.second(w)
				}
			}))
			t.Cleanup(server.Close)
			sc := scenario("/")
			sc.Endpoints[0].Method = row.method
			sc.TimeoutMs = 60_000
			if row.errors["timeout"] > 0 {
				sc.TimeoutMs = 200
				t.Cleanup(func() { close(release) })
			}
			e := newEngine(t, server.URL, sc)
			m := newMeter(analysis.Probe{Seconds: 3600}, time.Now())
			const asked = 5
			for range asked {
				ask(e, m)
			}
			s := m.close()
			failed := int64(0)
			for kind, n := range row.errors {
				failed += n
				if s.Errors[kind] != n {
					t.Errorf("errors %v, want %v", s.Errors, row.errors)
				}
			}
			if s.Completed != asked-failed || s.Failed != failed {
				t.Errorf("%d answered, %d failed (%v); want %d, %d", s.Completed, s.Failed, s.Errors, asked-failed, failed)
			}
			if n := connections.Load(); n != row.connections {
				t.Errorf("%d connections, want %d", n, row.connections)
			}
		})
	}
}

func TestOnlySmallPlainRequestsArePosted(t *testing.T) {
	for name, row := range map[string]struct {
		secure bool
		change func(*analysis.Scenario)
		want   int32
	}{
		"a GET":                    {false, func(*analysis.Scenario) {}, listening},
		"with a body":              {false, func(sc *analysis.Scenario) { sc.Endpoints[1].Method, sc.Endpoints[1].Body = "PUT", "x" }, waiting},
		"with a long head":         {false, func(sc *analysis.Scenario) { sc.Endpoints[1].Path = "/" + strings.Repeat("x", maxPosted) }, waiting},
		"over TLS":                 {true, func(*analysis.Scenario) {}, waiting},
		"on a connection for each": {false, func(sc *analysis.Scenario) { sc.KeepAlive = false }, waiting},
		"in a stream of HTTP/2's":  {false, func(sc *analysis.Scenario) { sc.Protocol = analysis.ProtocolHTTP2 }, waiting},
	} {
		sc := scenario("/a", "/b")
		row.change(&sc)
		s := newTarget(t, row.secure, sc.Protocol == analysis.ProtocolHTTP2)
		e := newEngine(t, s.URL, sc)
		if row.secure {
			trust(e, s)
		}
		m := newMeter(analysis.Probe{Seconds: 3600}, time.Now())
		ask(e, m)
		ask(e, m)
		if got := e.idle[0].post.state.Load(); got != row.want {
			t.Errorf("%s: state %d, want %d", name, got, row.want)
		}
		if step := m.close(); step.Completed != 2 {
			t.Errorf("%s: %v", name, step.Errors)
		}
	}
}

func TestCloseEndsTheConnectionsOfWorkersThatListen(t *testing.T) {
	ended := make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			close(ended)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	e := newEngine(t, server.URL, scenario("/"))
	ask(e, newMeter(analysis.Probe{Seconds: 3600}, time.Now()))
	if e.idle[0].post.state.Load() != listening {
		t.Error("the worker doesn't listen")
	}
	e.Close()
	<-ended
}
