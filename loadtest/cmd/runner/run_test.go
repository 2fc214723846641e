package main

import (
	"context"
	"encoding/json"
	"fmt"
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
	"time"

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

func TestPrepareKnowsWhatAnEarlierStartLeft(t *testing.T) {
	step := []analysis.Step{{Phase: "bracket", OfferedRPS: 1, Seconds: 1}}
	for _, row := range []struct {
		name             string
		result, partial  string // run ids
		finished         bool
		left, mustBeGone []string
	}{
		{"nothing", "", "", false, nil, nil},
		{"this run's result", "run1", "", true, []string{"result.json"}, nil},
		{"another run's result", "run0", "", false, nil, []string{"result.json"}},
		{"this run's steps", "", "run1", false, []string{"result.interrupted.json"}, []string{"result.partial.json"}},
		{"another run's steps", "", "run0", false, nil, []string{"result.partial.json", "result.interrupted.json"}},
	} {
		dir := t.TempDir()
		out := filepath.Join(dir, "result.json")
		for file, id := range map[string]string{out: row.result, beside(out, ".partial.json"): row.partial} {
			if id == "" {
				continue
			}
			if err := write(file, analysis.Result{Version: 1, RunID: id, Steps: step}); err != nil {
				t.Fatal(err)
			}
		}
		finished, err := prepare(out, "run1", io.Discard)
		if err != nil || finished != row.finished {
			t.Errorf("%s: finished %t, %v; want %t", row.name, finished, err, row.finished)
		}
		for _, name := range row.left {
			if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
				t.Errorf("%s: %v", row.name, err)
			}
		}
		for _, name := range row.mustBeGone {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				t.Errorf("%s: %s is still there", row.name, name)
			}
		}
	}
}

func TestUseOfAWindow(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	reading := func(second, cpu float64) sample.Reading {
		return sample.Reading{At: start.Add(seconds(second)), Counters: sample.Counters{
			Kind: "cgroup", MonotonicNano: 1 + int64(second*1e9), CPUSeconds: cpu, PSICPUSeconds: -1, PSIIOSeconds: -1, DiskBusySeconds: -1}}
	}
	all := []sample.Reading{reading(0, 0), reading(3.5, 10), reading(4.5, 10.25), reading(9.5, 11.5), reading(10.5, 20)}
	h := plan.Host{Name: "app", CPUs: 0.5}
	u := use(h, inside(all, start.Add(seconds(3)), start.Add(seconds(10))), seconds(7))
	if u.Samples != 3 || math.Abs(u.CPURatio-0.5) > 1e-6 || math.Abs(u.CPUSeconds-1.75) > 1e-6 {
		t.Errorf("%+v; want 3 samples, a ratio of 0.5 and 1.75 CPU seconds in the 7 s window", u)
	}
	if u := use(h, inside(all, start.Add(seconds(4)), start.Add(seconds(5))), seconds(1)); u.Samples != 0 || u.CPURatio != 0 {
		t.Errorf("one reading is no use: %+v", u)
	}
}

// Overflows and kills between two windows belong to the step they are nearest.
func TestEventsOutsideTheWindowAreKept(t *testing.T) {
	p := plan.Plan{Hosts: []plan.Host{{Name: "app", CPUs: 1}}}
	w := &watcher{plan: p, readings: map[string][]sample.Reading{}}
	start := time.Now()
	add := func(second float64, kills int64) {
		w.readings["app"] = append(w.readings["app"], sample.Reading{At: start.Add(seconds(second)), Counters: sample.Counters{OOMKills: kills}})
	}
	add(0, 1)
	begun := w.mark()
	add(1, 2)  // in the discard
	add(12, 3) // while draining
	hosts := w.between(start.Add(seconds(3)), start.Add(seconds(10)), begun, nil).hosts
	if hosts[0].OOMKills != 2 || hosts[0].Samples != 0 {
		t.Errorf("%+v; want 2 kills", hosts[0])
	}
	if next := w.between(start.Add(seconds(15)), start.Add(seconds(20)), w.mark(), nil).hosts; next[0].OOMKills != 0 {
		t.Errorf("the next step counts %d kills again", next[0].OOMKills)
	}
}

// What a host used that could not be read is not the work of others.
func TestAHostWithoutReadingsIsNotForeign(t *testing.T) {
	start := time.Now()
	reading := func(second, cpu, busy float64) sample.Reading {
		return sample.Reading{At: start.Add(seconds(second)), Counters: sample.Counters{
			Kind: "cgroup", Boot: "x", MonotonicNano: 1 + int64(second*1e9), CPUSeconds: cpu, BusySeconds: busy, MachineSeconds: 2 * second}}
	}
	for _, row := range []struct {
		name string
		app  []sample.Reading
		want float64
	}{
		{"both are read", []sample.Reading{reading(1, 0, 0), reading(9, 6, 8)}, 1.0 / 16}, // of 16: 8 busy, 6 + 1 the hosts'
		{"one is not", nil, 0},
	} {
		w := &watcher{
			plan:     plan.Plan{Hosts: []plan.Host{{Name: "app", CPUs: 1}, {Name: "edge", CPUs: 1}}},
			readings: map[string][]sample.Reading{"app": row.app, "edge": {reading(1, 0, 0), reading(9, 1, 8)}},
		}
		got := w.between(start, start.Add(seconds(10)), mark{readings: map[string]sample.Reading{}}, nil).hosts[1].ForeignCPURatio
		if math.Abs(got-row.want) > 1e-9 {
			t.Errorf("%s: foreign %g, want %g", row.name, got, row.want)
		}
	}
}

func TestResultOfALongRunIsSmall(t *testing.T) {
	awkward := 1.0 / 3
	u := analysis.HostUse{Host: "database", Roles: []string{"database", "replica"}, Samples: 11, CPUs: 0.5,
		CPURatio: awkward, CPUSeconds: 10 * awkward, StealRatio: awkward / 1e3, ThrottledRatio: awkward, PSICPURatio: awkward,
		MemoryRatio: awkward, DiskRatio: awkward, PSIIORatio: awkward, NetMbps: 1000 * awkward, LinkMbps: 1000}
	s := analysis.Step{Phase: "bracket", OfferedRPS: 1230, Seconds: 11, Arrivals: 13530, Completed: 13530, Failed: 10, Dropped: 10,
		Errors: map[string]int64{"timeout": 10, "status-503": 10}, P50Ms: awkward, P95Ms: awkward, P99Ms: awkward, SendP95Ms: awkward,
		SchedLagP50Ms: awkward, MeanMs: awkward, InFlightMean: awkward, BacklogSlopeRPS: awkward, Generator: u}
	use := analysis.ServiceUse{Host: "database", Service: "postgres", Samples: 11, Connections: awkward, ConnectionsMax: 20, ConnectionLimit: 97, Waiting: awkward,
		ThreadRatio: awkward, HitRatio: awkward, Waits: map[string]float64{"Lock": awkward, "IO": awkward, "LWLock": awkward}}
	for range 5 {
		s.Hosts, s.Services = append(s.Hosts, u), append(s.Services, use)
		s.Services[0].Statements = append(s.Services[0].Statements, analysis.Statement{ID: "-1234567890123456789", Calls: 12345, MeanMs: awkward, ShareRatio: awkward})
	}
	s.Blocks, s.BlockSeconds = []int64{6150, 6150, 6150, 6150, 6150, 6150, 6150, 6150, 6150, 6150, 6150}, 5
	var r analysis.Result
	for range 80 { // three runs of a slow search
		r.Steps = append(r.Steps, rounded(s))
	}
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if len(raw) > 512<<10 {
		t.Errorf("%d bytes, want at most 512 KiB", len(raw))
	}
	t.Log(len(raw), "bytes")
	if s.Hosts[0].CPURatio != awkward {
		t.Error("rounding changed its argument")
	}
}

func TestRound(t *testing.T) {
	for _, row := range []struct{ in, want float64 }{
		{0, 0}, {-1, -1}, {1.0 / 3, 0.3333}, {123456.7, 123500}, {-0.000012345678, -0.00001235}, {math.NaN(), 0}, {math.Inf(1), 0},
	} {
		if got := round(row.in); fmt.Sprintf("%.10g", got) != fmt.Sprintf("%.10g", row.want) {
			t.Errorf("round(%g) = %g, want %g", row.in, got, row.want)
		}
	}
}

// With k6, which is a stand-in here, the runner walks the same search and writes
// the same result. That k6 fails in the middle ends the run with what it said.
func TestRunWithK6(t *testing.T) {
	for _, row := range []struct {
		name, fails string
		status      analysis.Status
		aborted     string
	}{
		{"it reaches the cap", "never", analysis.StatusCapReached, ""},
		{"its script throws at 75/s", "75", analysis.StatusAborted, "status 107: the script has an error: Error: boom"},
	} {
		dir := t.TempDir()
		p := testPlan(t, answers)
		p.Scenario.Engine = analysis.EngineK6
		p.K6 = &plan.K6{Binary: filepath.Join(dir, "k6"), Version: "v2.2.0"}
		if err := os.WriteFile(p.K6.Binary, []byte(strings.ReplaceAll(standInK6, "FAILS", row.fails)), 0o700); err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		out := filepath.Join(dir, "result.json")
		if err := run(context.Background(), p, out, &log); err != nil {
			t.Errorf("%s: %v", row.name, err)
			continue
		}
		r := mustRead(t, out)
		v := analysis.Analyze(r)
		if v.Status != row.status || r.Engine != "k6 v2.2.0" || !strings.Contains(r.Aborted, row.aborted) || (r.Aborted == "") != (row.aborted == "") {
			t.Errorf("%s: status %s (%v), engine %s, aborted %q\n%s", row.name, v.Status, v.Invalid, r.Engine, r.Aborted, log.String())
		}
		if len(r.Steps) == 0 || len(r.Steps[0].Hosts) != 2 {
			t.Errorf("%s: steps %+v", row.name, r.Steps)
		}
	}
}

// standInK6 answers as a k6 whose target completes all that it is offered.
const standInK6 = `#!/bin/bash
set -euo pipefail
[ "$1" != version ] || { echo "k6 v2.2.0"; exit 0; }
params=${5#LAB_PARAMS=}
field() { grep -o "\"$1\":[^,}]*" "$params" | head -n 1 | cut -d: -f2- | tr -d '"'; }
rate=$(field rate) seconds=$(field seconds) discard=$(field discardSeconds)
[ "$rate" != FAILS ] || { echo 'time="x" level=error msg="Error: boom\n\tat default"' >&2; exit 107; }
began=$(date +%s%3N)
sleep "$seconds"
n=$(awk "BEGIN { print int($rate * ($seconds - $discard) + 0.5) }")
cat >"$(field summary)" <<EOT
{"metrics":{"lab_began_ms{rate:$rate}":{"values":{"value":$began}},"lab_started{rate:$rate}":{"values":{"count":$n}},
"lab_completed{rate:$rate}":{"values":{"count":$n}},"lab_latency{rate:$rate}":{"values":{"avg":2,"p(50)":2,"p(95)":3,"p(99)":4}},
"http_reqs":{"values":{"count":$n}},"vus":{"values":{"max":3}}}}
EOT
`
