package engine

import (
	"context"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"lab/loadtest/analysis"
)

// target is a real server that counts its connections and the answers' protocols.
type target struct {
	*httptest.Server
	mu          sync.Mutex
	connections int
	protocols   map[string]int
	last        http.Header
	body        string
}

func newTarget(t *testing.T, secure, http2 bool) *target {
	t.Helper()
	s := &target{protocols: map[string]int{}}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.protocols[r.Proto]++
		s.last, s.body = r.Header, string(body)
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if state == http.StateNew {
			s.connections++
		}
	}
	if secure {
		s.EnableHTTP2 = http2
		s.StartTLS()
	} else {
		s.Config.Protocols = new(http.Protocols)
		s.Config.Protocols.SetHTTP1(!http2)
		s.Config.Protocols.SetUnencryptedHTTP2(http2)
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// trust makes an engine accept the server's own certificate.
func trust(e *Engine, s *target) {
	e.tls.RootCAs = x509.NewCertPool()
	e.tls.RootCAs.AddCert(s.Certificate())
}

func TestProtocols(t *testing.T) {
	const requests = 60
	for _, row := range []struct {
		name               string
		secure, http2      bool
		keepAlive          bool
		protocol           string
		fewest, most       int // connections for the requests of a step
		protocolOfScenario string
	}{
		{"HTTP/1.1", false, false, true, "HTTP/1.1", 1, 40, analysis.ProtocolHTTP1},
		{"HTTP/1.1 without keep-alive", false, false, false, "HTTP/1.1", requests, requests, analysis.ProtocolHTTP1},
		{"HTTP/1.1 over TLS", true, false, true, "HTTP/1.1", 1, 40, analysis.ProtocolHTTP1},
		{"HTTP/2 over TLS", true, true, true, "HTTP/2.0", 1, 2, analysis.ProtocolHTTP2},
		{"HTTP/2 in clear text", false, true, true, "HTTP/2.0", 1, 2, analysis.ProtocolHTTP2},
	} {
		s := newTarget(t, row.secure, row.http2)
		sc := scenario("/a?b=c")
		sc.KeepAlive, sc.Protocol = row.keepAlive, row.protocolOfScenario
		sc.Endpoints[0].Method, sc.Endpoints[0].Body = "POST", `{"a":1}`
		sc.Endpoints[0].Headers = map[string]string{"x-lab": "yes", "content-type": "text/plain"}
		e := newEngine(t, s.URL, sc)
		if row.secure {
			trust(e, s)
		}
		step := e.Step(context.Background(), analysis.Probe{OfferedRPS: requests, Seconds: 1})
		e.Close()
		s.mu.Lock()
		if step.Arrivals != requests || step.Failed != 0 || s.protocols[row.protocol] != requests {
			t.Errorf("%s: %d arrivals, errors %v, served %v; want %d by %s", row.name, step.Arrivals, step.Errors, s.protocols, requests, row.protocol)
		}
		if s.connections < row.fewest || s.connections > row.most {
			t.Errorf("%s: %d connections for %d requests, want %d to %d", row.name, s.connections, requests, row.fewest, row.most)
		}
		if s.last.Get("X-Lab") != "yes" || s.last.Get("Content-Type") != "text/plain" || s.last.Get("User-Agent") != "lab" || s.body != `{"a":1}` {
			t.Errorf("%s: the target saw %v and %q", row.name, s.last, s.body)
		}
		s.mu.Unlock()
	}
}

func TestTLSErrorsAreTheirOwnKind(t *testing.T) {
	secure, plain, old := newTarget(t, true, true), newTarget(t, false, false), newTarget(t, true, false)
	for _, row := range []struct {
		name, target, protocol string
		trusted                *target
		want                   string
	}{
		{"a certificate of nobody", secure.URL, analysis.ProtocolHTTP1, nil, "tls"},
		{"a certificate of nobody, HTTP/2", secure.URL, analysis.ProtocolHTTP2, nil, "tls"},
		{"no TLS there", "https" + plain.URL[len("http"):], analysis.ProtocolHTTP1, nil, "tls"},
		{"HTTP/2 of a server that has only HTTP/1.1", old.URL, analysis.ProtocolHTTP2, old, "protocol"},
	} {
		sc := scenario("/")
		sc.Protocol = row.protocol
		e := newEngine(t, row.target, sc)
		if row.trusted != nil {
			trust(e, row.trusted)
		}
		if s, err := e.Check(); err == nil || s.Errors[row.want] != 1 {
			t.Errorf("%s: errors %v (%v), want one of kind %s", row.name, s.Errors, err, row.want)
		}
	}
}

// The blocks hold every completion of the window but for its last part.
func TestBlocksOfCompletions(t *testing.T) {
	s := newTarget(t, false, false)
	e := newEngine(t, s.URL, scenario("/"))
	step := e.Step(context.Background(), analysis.Probe{OfferedRPS: 100, Seconds: 3.6, DiscardSeconds: 0.5})
	sum := int64(0)
	for _, n := range step.Blocks {
		sum += n
	}
	if len(step.Blocks) != 3 || step.BlockSeconds != 1 || sum > step.Completed || sum < step.Completed-20 {
		t.Errorf("blocks %v of %g s, %d completed in %g s", step.Blocks, step.BlockSeconds, step.Completed, step.Seconds)
	}
}

// An interim answer was taken for the answer: a target that fails each request
// after 103 Early Hints had every other one counted as a fast success.
func TestInterimAnswersAreNotTheAnswer(t *testing.T) {
	s := newTarget(t, false, false)
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	e := newEngine(t, s.URL, scenario("/"))
	w := &worker{engine: e}
	defer w.close()
	for i := range 3 {
		if kind := w.do(&e.endpoints[0], time.Now(), false); kind != "status-503" {
			t.Errorf("request %d: %q, want status-503", i, kind)
		}
	}
}

// 101 without an Upgrade is an answer to nothing that was asked.
func TestUnaskedSwitchOfProtocols(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
	})
	w := &worker{engine: newEngine(t, url, scenario("/"))}
	defer w.close()
	if kind := w.do(&w.engine.endpoints[0], time.Now(), false); kind != "protocol" {
		t.Errorf("%q, want protocol", kind)
	}
}

// What a server of HTTP/2 does to a request is sorted as over HTTP/1.1. An answer
// cut short, which there ends the connection and here the stream, was "reset" there
// and "protocol" here.
func TestHTTP2ErrorsAreSortedByKind(t *testing.T) {
	s := newTarget(t, true, true)
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/busy":
			http.Error(w, "busy", http.StatusServiceUnavailable)
		case "/hang":
			<-r.Context().Done()
		case "/short":
			w.Header().Set("Content-Length", "10")
		case "/truncated":
			w.Header().Set("Content-Length", "10")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		default:
			panic(http.ErrAbortHandler)
		}
	})
	for _, row := range []struct{ path, want string }{
		{"/busy", "status-503"}, {"/hang", "timeout"}, {"/truncated", "reset"}, {"/short", "reset"}, {"/reset", "reset"},
	} {
		sc := scenario(row.path)
		sc.Protocol, sc.TimeoutMs = analysis.ProtocolHTTP2, 1000
		e := newEngine(t, s.URL, sc)
		trust(e, s)
		if step, err := e.Check(); err == nil || step.Errors[row.want] != 1 {
			t.Errorf("%s: errors %v (%v), want one of kind %s", row.path, step.Errors, err, row.want)
		}
		e.Close()
	}
}
