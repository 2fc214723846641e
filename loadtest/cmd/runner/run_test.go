package main

import (
	"context"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"lab/loadtest/analysis"
	"lab/loadtest/plan"
	"lab/loadtest/sample"
)

// testPlan searches up to a cap that the target holds, in three steps.
func testPlan(t *testing.T, target http.HandlerFunc) plan.Plan {
	t.Helper()
	server := httptest.NewServer(target)
	t.Cleanup(server.Close)
	sampler := httptest.NewServer(sample.Handler(sample.Reader{Root: idleMachine(t)}, "secret"))
	t.Cleanup(sampler.Close)
	p := plan.Plan{
		RunID: "run1", Target: server.URL, Token: "secret", Generator: "loadgen",
		Scenario: analysis.Scenario{
			Kind: "search", FloorRPS: 50, CapRPS: 100, ProbeSeconds: 1, ProbeDiscard: 0.2, StepSeconds: 1, StepDiscard: 0.2,
			MaxInFlight: 100, TimeoutMs: 2000, SLOP95Ms: 500, SLOErrorRatio: 0.01, Seed: 1,
			Endpoints: []analysis.Endpoint{{Name: "root", Path: "/", Weight: 1}},
		},
	}
	for _, name := range []string{"app", "loadgen"} {
		p.Hosts = append(p.Hosts, plan.Host{
			Name: name, Roles: []string{name}, Sampler: strings.TrimPrefix(sampler.URL, "http://"), CPUs: 2, MemoryMiB: 512,
		})
	}
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	return p
}

// idleMachine is the root of a machine whose counters stand still: what else
// runs on this one must not decide a test.
func idleMachine(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "proc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "proc/stat"), []byte("cpu  1000 200 300 4000 50 10 20 70 30 0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return root
}

func mustRead(t *testing.T, file string) analysis.Result {
	t.Helper()
	r, err := readResult(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := analysis.Validate(r); err != nil {
		t.Errorf("the result is no result: %v", err)
	}
	return r
}

func answers(http.ResponseWriter, *http.Request) {}

func TestRunReachesTheCap(t *testing.T) {
	out := filepath.Join(t.TempDir(), "result.json")
	p := testPlan(t, answers)
	p.Scenario.ProbeSeconds, p.Scenario.StepSeconds = 2.8, 2.8 // long enough for two samples a second apart
	var log strings.Builder
	if err := run(context.Background(), p, out, &log); err != nil {
		t.Fatal(err)
	}
	r := mustRead(t, out)
	if v := analysis.Analyze(r); v.Status != analysis.StatusCapReached || v.Ceiling != ">=100" {
		t.Errorf("status %s, ceiling %s, invalid %v\n%s", v.Status, v.Ceiling, v.Invalid, log.String())
	}
	if r.RunID != "run1" || r.Engine != "builtin" || math.Abs(r.LoadSeconds-2.8*float64(len(r.Steps))) > 1e-9 {
		t.Errorf("run %s, engine %s, %g s of load in %d steps", r.RunID, r.Engine, r.LoadSeconds, len(r.Steps))
	}
	for _, s := range r.Steps {
		if len(s.Hosts) != 2 || s.Hosts[0].Samples < 2 || s.Generator.Host != "loadgen" || s.Generator.CPURatio <= 0 {
			t.Errorf("at %g/s: hosts %+v, generator %+v", s.OfferedRPS, s.Hosts, s.Generator)
		}
	}
	if lines := strings.Count(log.String(), " of at most 10:00 min: step "); lines != len(r.Steps) {
		t.Errorf("%d progress lines for %d steps:\n%s", lines, len(r.Steps), log.String())
	}
	if _, err := os.Stat(beside(out, ".partial.json")); !os.IsNotExist(err) {
		t.Errorf("the partial result is left behind: %v", err)
	}
	if raw, _ := os.ReadFile(out); strings.Contains(string(raw), "secret") {
		t.Error("the token is in the result")
	}
	t.Log(log.String())
}

func TestRunAgainstATargetThatIsDown(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	for _, row := range []struct {
		name   string
		change func(*plan.Plan)
		target http.HandlerFunc
		want   analysis.Status
		kind   string
	}{
		{"nobody listens", func(p *plan.Plan) { p.Target = "http://" + closed.Addr().String() }, answers, analysis.StatusTargetDown, "dial"},
		{"it answers 502 only", func(*plan.Plan) {}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, analysis.StatusTargetDown, "status-502"},
		{"one of two endpoints fails", func(p *plan.Plan) {
			p.Scenario.Endpoints = append(p.Scenario.Endpoints, analysis.Endpoint{Name: "missing", Path: "/missing", Weight: 1})
		}, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/" {
				http.NotFound(w, r)
			}
		}, analysis.StatusAborted, "status-404"},
	} {
		out := filepath.Join(t.TempDir(), "result.json")
		p := testPlan(t, row.target)
		row.change(&p)
		if err := run(context.Background(), p, out, io.Discard); err != nil {
			t.Errorf("%s: %v", row.name, err)
			continue
		}
		r := mustRead(t, out)
		v := analysis.Analyze(r)
		if v.Status != row.want || v.Ceiling != "none" || v.CeilingRPS != 0 {
			t.Errorf("%s: status %s, ceiling %s; want %s and none", row.name, v.Status, v.Ceiling, row.want)
		}
		if !strings.Contains(r.Aborted, row.kind) {
			t.Errorf("%s: the reason %q does not name %s", row.name, r.Aborted, row.kind)
		}
	}
}

func TestRunThatCannotSampleAHostAborts(t *testing.T) {
	out := filepath.Join(t.TempDir(), "result.json")
	p := testPlan(t, answers)
	p.Token = "wrong"
	if err := run(context.Background(), p, out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if r := mustRead(t, out); len(r.Steps) != 0 || !strings.Contains(r.Aborted, "sample app") {
		t.Errorf("aborted %q with %d steps", r.Aborted, len(r.Steps))
	}
}

// A signal ends the context: what was measured so far is written, as aborted.
func TestRunToldToStopWritesWhatItHas(t *testing.T) {
	out := filepath.Join(t.TempDir(), "result.json")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var served atomic.Int64
	p := testPlan(t, func(http.ResponseWriter, *http.Request) {
		if served.Add(1) == 80 { // 1 of the check, 50 of the first step, then within the second
			if _, err := readResult(beside(out, ".partial.json")); err != nil {
				t.Errorf("no partial result during the second step: %v", err)
			}
			cancel()
		}
	})
	if err := run(ctx, p, out, io.Discard); err != nil {
		t.Fatal(err)
	}
	r := mustRead(t, out)
	if len(r.Steps) != 1 || r.Aborted == "" {
		t.Errorf("%d steps, aborted %q; want the 1 finished, and a reason", len(r.Steps), r.Aborted)
	}
	if v := analysis.Analyze(r); v.Status != analysis.StatusAborted || v.Ceiling != "none" {
		t.Errorf("status %s, ceiling %s", v.Status, v.Ceiling)
	}
}
