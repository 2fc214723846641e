package orders

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lab/loadtest/analysis"
	"lab/loadtest/engine"
)

func scenario() analysis.Scenario {
	sc := analysis.DefaultScenario()
	sc.MaxInFlight, sc.TimeoutMs = 100, 2000
	sc.Endpoints = []analysis.Endpoint{{Name: "root", Method: "GET", Path: "/", Weight: 1}}
	return sc
}

var probe = analysis.Probe{Phase: "bracket", OfferedRPS: 100, Seconds: 1, DiscardSeconds: 0.2}

// target counts the requests that it answers.
func target(t *testing.T, served *atomic.Int64) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) }))
	t.Cleanup(server.Close)
	return server.URL
}

// member is a generator that takes orders on an address of its own.
func member(t *testing.T, handler http.Handler) Member {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return Member{Host: "loadgen2", Address: strings.TrimPrefix(server.URL, "http://"), Share: engine.Share{Index: 1, Weights: []int{1, 1}}}
}

func crew(t *testing.T, url, secret string, members ...Member) *Crew {
	t.Helper()
	own, err := engine.NewShare(url, scenario(), engine.Share{Weights: []int{1, 1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.Close)
	return NewCrew(own, members, secret, "run1")
}

func newServer(url string) *Server {
	return NewServer(url, "secret", func() float64 { return 0 })
}

func TestACrewOffersOneSchedule(t *testing.T) {
	var served atomic.Int64
	url := target(t, &served)
	s := newServer(url)
	c := crew(t, url, "secret", member(t, s.Handler()))
	if err := c.Begin(context.Background(), scenario()); err != nil {
		t.Fatal(err)
	}
	served.Store(0) // what the check asked
	for range 2 {
		before := time.Now()
		tally, start, err := c.Count(context.Background(), probe)
		if err != nil {
			t.Fatal(err)
		}
		if step := tally.Step(probe); step.Arrivals != 80 || step.Dropped != 0 {
			t.Errorf("step %+v, want 80 arrivals in the window", step)
		}
		if start.Before(before) || start.After(before.Add(time.Second)) {
			t.Errorf("the step began %s after it was asked for", start.Sub(before))
		}
	}
	if n := served.Load(); n != 200 {
		t.Errorf("the target saw %d requests of two steps, want 200", n)
	}
	if cpus, ok := c.CPUs()["loadgen2"]; !ok || cpus != 0 {
		t.Errorf("CPUs %v", c.CPUs())
	}
	c.End()
	ended := make(chan struct{})
	go func() { s.Wait(context.Background(), time.Hour); close(ended) }()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("the generator does not end with the run")
	}
}

// What is wrong with a generator is said before any load, with its name.
func TestAGeneratorThatCannotTakePart(t *testing.T) {
	var served, asked atomic.Int64
	url := target(t, &served)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	gone := Member{Host: "loadgen2", Address: closed.Addr().String(), Share: engine.Share{Index: 1, Weights: []int{1, 1}}}
	wrongShare := member(t, newServer(url).Handler())
	wrongShare.Share.Index = 2
	for _, row := range []struct {
		name, secret string
		member       Member
		want         []string
	}{
		{"nobody listens", "secret", gone, []string{"load generator loadgen2 at " + gone.Address + " can't be reached", "connection refused", "systemctl status lab-generator.socket"}},
		{"the secret is wrong", "guess", member(t, newServer(url).Handler()), []string{"loadgen2", "refuses the secret"}},
		{"there is no secret", "", member(t, newServer(url).Handler()), []string{"loadgen2", "refuses the secret"}},
		{"it does not reach the target", "secret", member(t, newServer("http://"+gone.Address).Handler()), []string{"loadgen2", "http://" + gone.Address + " does not answer", "dial"}},
		{"the share is none", "secret", wrongShare, []string{"loadgen2", "share 2 of 2"}},
	} {
		asked.Store(served.Load())
		err := crew(t, url, row.secret, row.member).Begin(context.Background(), scenario())
		if err == nil {
			t.Errorf("%s: it takes part", row.name)
			continue
		}
		for _, want := range row.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q has no %q", row.name, err, want)
			}
		}
		if n := served.Load() - asked.Load(); n > 0 {
			t.Errorf("%s: the target saw %d requests", row.name, n)
		}
	}
}

// Without the secret nothing of a generator can be had, and it loads nothing.
func TestOrdersWithoutTheSecretAreRefused(t *testing.T) {
	var served atomic.Int64
	m := member(t, newServer(target(t, &served)).Handler())
	for _, path := range []string{"GET /ready", "POST /begin", "POST /step", "POST /end"} {
		for _, header := range []string{"", "Bearer ", "Bearer secre", "Bearer secret2", "secret", "bearer secret"} {
			method, path, _ := strings.Cut(path, " ")
			req, err := http.NewRequest(method, "http://"+m.Address+path, strings.NewReader(`{"runId": "run1"}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", header)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s with %q: %s", path, header, resp.Status)
			}
		}
	}
	if n := served.Load(); n > 0 {
		t.Errorf("the target saw %d requests", n)
	}
}

// A step that one generator did not offer is no measurement, and the others stop.
func TestAGeneratorThatIsLostWithinAStep(t *testing.T) {
	for _, row := range []struct {
		name string
		step http.HandlerFunc
		want []string
	}{
		{"its process is killed before it answers", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, []string{"ended within a step"}},
		{"its connection is cut", func(w http.ResponseWriter, _ *http.Request) {
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, []string{"ended within a step, which does not count", "journalctl -u lab-generator"}},
		{"its report is cut", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"tally":{"arri`)) }, []string{"ended within a step"}},
		{"its report is of another step", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"tally":{}}`)) }, []string{"tallies of two steps"}},
		{"it was started again", func(w http.ResponseWriter, r *http.Request) { newServer("http://127.0.0.1:1").step(w, r) }, []string{"run run1 was not begun here"}},
	} {
		var served atomic.Int64
		url := target(t, &served)
		mux := http.NewServeMux()
		mux.Handle("/", newServer(url).Handler())
		mux.HandleFunc("POST /step", row.step)
		c := crew(t, url, "secret", member(t, mux))
		if err := c.Begin(context.Background(), scenario()); err != nil {
			t.Fatal(err)
		}
		long := probe
		long.Seconds = 20
		if strings.Contains(row.name, "another") {
			long = probe // which the lead walks to its end
		}
		_, _, err := c.Count(context.Background(), long)
		if err == nil {
			t.Errorf("%s: there is a tally", row.name)
			continue
		}
		if strings.Contains(err.Error(), `"`) { // once load.sh cut the reason there
			t.Errorf("%s: %q has a quotation mark", row.name, err)
		}
		for _, want := range append(row.want, "load generator loadgen2 at 127.0.0.1:") {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q has no %q", row.name, err, want)
			}
		}
		if n := served.Load(); n > 1000 {
			t.Errorf("%s: the lead went on for %d requests of 1000", row.name, n)
		}
	}
}

// A host that loses its power says nothing: no connection is reset.
func TestAGeneratorThatFallsSilent(t *testing.T) {
	var served atomic.Int64
	url, over := target(t, &served), make(chan struct{})
	mux := http.NewServeMux()
	mux.Handle("/", newServer(url).Handler())
	mux.HandleFunc("POST /step", func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-over
	})
	c := crew(t, url, "secret", member(t, mux))
	defer close(over)
	c.silence = 300 * time.Millisecond
	if err := c.Begin(context.Background(), scenario()); err != nil {
		t.Fatal(err)
	}
	long := probe
	long.Seconds = 60
	if _, _, err := c.Count(context.Background(), long); !errors.Is(err, errSilent) {
		t.Errorf("%v, want %v", err, errSilent)
	}
}

// When the lead is gone, the load ends: nobody measures it.
func TestTheLoadEndsWithWhoOrderedIt(t *testing.T) {
	var served atomic.Int64
	url := target(t, &served)
	s := newServer(url)
	c := crew(t, url, "secret", member(t, s.Handler()))
	if err := c.Begin(context.Background(), scenario()); err != nil {
		t.Fatal(err)
	}
	long := probe
	long.Seconds = 60
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for served.Load() < 20 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	if _, _, err := c.Count(ctx, long); err == nil {
		t.Error("a step that was stopped has a tally")
	}
	// The generator is free for the next run, which waits for it.
	again := crew(t, url, "secret", c.members...)
	again.run = "run2"
	if err := again.Begin(context.Background(), scenario()); err != nil {
		t.Fatal(err)
	}
	if n := served.Load(); n > 3000 {
		t.Errorf("%d requests of 6000: the load went on", n)
	}
}

func TestAGeneratorThatNobodyOrdersEnds(t *testing.T) {
	s := newServer("http://127.0.0.1:1")
	s.Wait(context.Background(), time.Millisecond) // returns
}

func TestOrdersThatMakeNoSense(t *testing.T) {
	now := time.Now()
	for _, row := range []struct {
		name  string
		away  time.Duration
		wrong string
	}{
		{"in half a second", 500 * time.Millisecond, ""},
		{"a little late", -50 * time.Millisecond, ""},
		{"too late", -time.Second, "1000 ms after the start"},
		{"of a clock that is ahead", time.Hour, "3600.0 s away"},
		{"of a clock that is behind", -time.Hour, "-3600.0 s away"},
	} {
		start, err := step{StartUnixNano: now.Add(row.away).UnixNano()}.startOn(now)
		if row.wrong == "" && (err != nil || start.Sub(now) != row.away) || row.wrong != "" && (err == nil || !strings.Contains(err.Error(), row.wrong)) {
			t.Errorf("%s: starts in %s, %v; want %q", row.name, start.Sub(now), err, row.wrong)
		}
	}
	for _, p := range []analysis.Probe{{}, {OfferedRPS: 1e9, Seconds: 1}, {OfferedRPS: 1, Seconds: 1, DiscardSeconds: 1}, {OfferedRPS: 1, Seconds: 1e9}, {OfferedRPS: -1, Seconds: 1}} {
		if err := (step{Probe: p}).validate(); err == nil {
			t.Errorf("%+v was taken", p)
		}
	}
}
