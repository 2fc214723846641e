package engine

import (
	"context"
	"math"
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

func scenario(paths ...string) analysis.Scenario {
	sc := analysis.Scenario{MaxInFlight: 1000, TimeoutMs: 5000, Seed: 1, KeepAlive: true}
	for _, p := range paths {
		sc.Endpoints = append(sc.Endpoints, analysis.Endpoint{Name: p, Path: p, Weight: 1})
	}
	return sc
}

func newEngine(t testing.TB, target string, sc analysis.Scenario) *Engine {
	t.Helper()
	e, err := New(target, sc)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func serve(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

// within allows for a machine that does other work besides.
func within(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got-want) > tolerance*want {
		t.Errorf("%s is %.4g, want %.4g ± %.0f%%", what, got, want, 100*tolerance)
	}
}

func TestStepOffersItsRate(t *testing.T) {
	for _, rate := range []float64{200, 1000} {
		var served atomic.Int64
		url := serve(t, func(http.ResponseWriter, *http.Request) { served.Add(1) })
		e := newEngine(t, url, scenario("/"))
		s := e.Step(context.Background(), analysis.Probe{Phase: "ramp", OfferedRPS: rate, Seconds: 1.5, DiscardSeconds: 0.5})
		if got := served.Load(); got != int64(1.5*rate) {
			t.Errorf("at %g/s the target saw %d requests in 1.5 s", rate, got)
		}
		if s.Arrivals != int64(rate) || s.Seconds != 1 || s.Dropped != 0 || s.Failed != 0 {
			t.Errorf("at %g/s the window holds %+v", rate, s)
		}
		// On a busy machine answers of the discard may end in the window, or the window's
		// after it: how many do is what the meter's own tests check.
		if s.Completed < 1 || s.Completed > served.Load() {
			t.Errorf("at %g/s %d of %d completed", rate, s.Completed, served.Load())
		}
		t.Logf("%g/s: lag p50 %.3f ms, p95 %.3f ms", rate, s.SchedLagP50Ms, s.P95Ms)
	}
}

// A target frozen for 0.6 s of 3 s delays a fifth of the arrivals, by 0 to 0.6 s:
// 5 % of all wait longer than 0.45 s. From the send, only a closed loop would
// hide that; here every send is on time.
func TestFrozenTargetIsChargedToTheArrivalsItDelayed(t *testing.T) {
	var first sync.Once
	var start time.Time
	url := serve(t, func(http.ResponseWriter, *http.Request) {
		first.Do(func() { start = time.Now() })
		if d := time.Since(start); d > time.Second && d < 1600*time.Millisecond {
			time.Sleep(1600*time.Millisecond - d)
		}
	})
	e := newEngine(t, url, scenario("/"))
	s := e.Step(context.Background(), analysis.Probe{OfferedRPS: 200, Seconds: 3})
	if s.Arrivals != 600 || s.Dropped != 0 {
		t.Errorf("%d arrivals, %d dropped; want 600, 0", s.Arrivals, s.Dropped)
	}
	within(t, "intended p95 (ms)", s.P95Ms, 450, 0.1)
	within(t, "in flight", s.InFlightMean, 200*s.MeanMs/1000, 0.05) // Little's law
}

func TestArrivalsBeyondTheInFlightCapAreDropped(t *testing.T) {
	release := make(chan struct{})
	url := serve(t, func(http.ResponseWriter, *http.Request) { <-release })
	sc := scenario("/")
	sc.MaxInFlight = 10
	e := newEngine(t, url, sc)
	time.AfterFunc(1200*time.Millisecond, func() { close(release) })
	s := e.Step(context.Background(), analysis.Probe{OfferedRPS: 100, Seconds: 1})
	if s.Arrivals != 100 || s.Dropped != 90 || s.Completed != 0 {
		t.Errorf("arrivals, dropped, completed = %d, %d, %d; want 100, 90, 0", s.Arrivals, s.Dropped, s.Completed)
	}
	if s.P95Ms != 0 || s.MeanMs != 0 {
		t.Errorf("nothing completed, with a p95 of %g ms", s.P95Ms)
	}
}

// Trap 7 of the method: what drains after the step is not its throughput.
func TestDrainedAnswersAreNotCredited(t *testing.T) {
	var served atomic.Int64
	url := serve(t, func(http.ResponseWriter, *http.Request) {
		time.Sleep(400 * time.Millisecond)
		served.Add(1)
	})
	e := newEngine(t, url, scenario("/"))
	s := e.Step(context.Background(), analysis.Probe{OfferedRPS: 100, Seconds: 1})
	if served.Load() != 100 {
		t.Errorf("the step ended with %d of 100 served: it did not drain", served.Load())
	}
	if s.Arrivals != 100 || s.Completed > 61 || s.Completed < 40 {
		t.Errorf("%d arrivals, %d completed; want 100 and about 60", s.Arrivals, s.Completed)
	}
	if s := e.Step(context.Background(), analysis.Probe{OfferedRPS: 100, Seconds: 0.3}); s.Completed != 0 {
		t.Errorf("the next step was credited %d answers that can't be its own", s.Completed)
	}
}

func TestBacklogSlopeIsTheExcessRate(t *testing.T) {
	tokens := time.NewTicker(10 * time.Millisecond) // serves 100/s
	defer tokens.Stop()
	ctx, cancel := context.WithCancel(context.Background())
	url := serve(t, func(http.ResponseWriter, *http.Request) {
		select {
		case <-tokens.C:
		case <-ctx.Done():
		}
	})
	e := newEngine(t, url, scenario("/"))
	time.AfterFunc(2100*time.Millisecond, cancel) // the rest drains at once
	s := e.Step(context.Background(), analysis.Probe{OfferedRPS: 200, Seconds: 2, DiscardSeconds: 0.5})
	within(t, "backlog slope", s.BacklogSlopeRPS, 100, 0.15)
	within(t, "completed rate", s.CompletedRPS(), 100, 0.15)
}

func TestErrorsAreSortedByKind(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	hang := make(chan struct{})
	defer close(hang)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/busy":
			http.Error(w, "busy", http.StatusServiceUnavailable)
		case "/hang":
			<-hang
		case "/truncated":
			w.Header().Set("Content-Length", "10")
		default:
			panic(http.ErrAbortHandler)
		}
	})
	for _, row := range []struct{ target, path, want string }{
		{"http://" + closed.Addr().String(), "/", "dial"},
		{"http://nowhere.invalid:80", "/", "dns"},
		{url, "/busy", "status-503"},
		{url, "/hang", "timeout"},
		{url, "/reset", "reset"},
		{url, "/truncated", "reset"},
	} {
		sc := scenario(row.path)
		sc.TimeoutMs = 300
		if row.want == "dns" {
			sc.TimeoutMs = 5000
		}
		e := newEngine(t, row.target, sc)
		s, err := e.Check()
		if err == nil || s.Errors[row.want] != 1 || s.Failed != 1 || s.Completed != 0 {
			t.Errorf("%s%s: errors %v, want one of kind %s", row.target, row.path, s.Errors, row.want)
		}
		if row.want == "dns" {
			continue
		}
		step := e.Step(context.Background(), analysis.Probe{OfferedRPS: 20, Seconds: 0.5})
		if step.Completed != 0 || step.Failed == 0 || step.Errors[row.want] != step.Failed {
			t.Errorf("%s%s: failed %d, errors %v; want all of kind %s", row.target, row.path, step.Failed, step.Errors, row.want)
		}
	}
}

// A server may close a connection that idles; only a request that is safe to
// repeat, and got no byte of an answer, is sent again.
func TestIdleConnectionClosedByTheServer(t *testing.T) {
	for _, row := range []struct{ method, want string }{{"GET", ""}, {"POST", "reset"}} {
		server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		sc := scenario("/")
		sc.Endpoints[0].Method = row.method
		w := &worker{engine: newEngine(t, server.URL, sc)}
		r := &w.engine.endpoints[0]
		if kind := w.do(r, time.Now(), false); kind != "" {
			t.Fatalf("%s: %s", row.method, kind)
		}
		server.CloseClientConnections()
		if kind := w.do(r, time.Now(), false); kind != row.want {
			t.Errorf("%s on a connection closed meanwhile: %q, want %q", row.method, kind, row.want)
		}
		w.close()
		server.Close()
	}
}

func TestEndpointsAreChosenByWeightAndSeed(t *testing.T) {
	sc := scenario("/a", "/b", "/never")
	sc.Endpoints[0].Weight, sc.Endpoints[2].Weight = 3, 0
	draw := func(seed int64) (sequence string) {
		sc.Seed = seed
		e := newEngine(t, "http://127.0.0.1", sc)
		for range 4000 {
			sequence += e.pick().name[1:]
		}
		return sequence
	}
	one := draw(1)
	within(t, "share of a", float64(strings.Count(one, "a"))/4000, 0.75, 0.05)
	if strings.Contains(one, "never") {
		t.Error("an endpoint of weight 0 was chosen")
	}
	if one != draw(1) || one == draw(2) {
		t.Error("the sequence must follow from the seed")
	}
}

func TestStepEndsWithItsContext(t *testing.T) {
	url := serve(t, func(http.ResponseWriter, *http.Request) {})
	e := newEngine(t, url, scenario("/"))
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(200*time.Millisecond, cancel)
	start := time.Now()
	e.Step(ctx, analysis.Probe{OfferedRPS: 0.1, Seconds: 60})
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("the step went on for %s", took)
	}
}
