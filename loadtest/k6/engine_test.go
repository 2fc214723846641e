package k6

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lab/loadtest/analysis"
)

var probe = analysis.Probe{Run: 1, Phase: analysis.PhaseRamp, OfferedRPS: 100, Seconds: 11, DiscardSeconds: 1}

// goodSummary is what lab.js writes of a step at 100/s whose target failed ten.
const goodSummary = `{"metrics":{
"http_reqs":{"type":"counter","values":{"count":1100}},
"http_req_duration{rate:100}":{"type":"trend","values":{"p(95)":18.5}},
"lab_began_ms{rate:100}":{"type":"gauge","values":{"value":1796032791158}},
"lab_started{rate:100}":{"type":"counter","values":{"count":1000}},
"lab_completed{rate:100}":{"type":"counter","values":{"count":988}},
"lab_completed{rate:100,block:0}":{"type":"counter","values":{"count":495}},
"lab_completed{rate:100,block:1}":{"type":"counter","values":{"count":493}},
"lab_failed{rate:100}":{"type":"counter","values":{"count":10}},
"lab_failed{rate:100,kind:timeout}":{"type":"counter","values":{"count":4}},
"lab_failed{rate:100,kind:status-5xx}":{"type":"counter","values":{"count":6}},
"lab_busy_ms{rate:100}":{"type":"counter","values":{"count":15000}},
"lab_latency{rate:100}":{"type":"trend","values":{"avg":15,"p(50)":12,"p(95)":19,"p(99)":40}},
"vus":{"type":"gauge","values":{"max":7}}}}`

// standIn plays k6: it answers `version`, checks the arguments and environment of
// `run`, and ends with a recorded status, standard error and summary. k6 itself is
// no part of this project's tests.
func standIn(t *testing.T, status int, stderr, summary string) *Engine {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"stderr": stderr, "summary": summary} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	script := fmt.Sprintf(`#!/bin/bash
set -euo pipefail
[ "$1" != version ] || { echo "k6 v2.2.0 (go1.26, linux/amd64)"; exit 0; }
wrong() { echo "level=error msg=\"stand-in: $*\"" >&2; exit 3; }
[ "$1 $2 $3 $4" = "run -q --no-color -e" ] || wrong "arguments $*"
params=${5#LAB_PARAMS=}
[ -r "$params" ] && [ -r "$6" ] && [ -r lab.js ] || wrong "no $params or $6 in $PWD"
[ "${K6_NO_USAGE_REPORT:-}" = true ] || wrong "it may report usage"
[ -z "${LAB_TEST_SECRET:-}" ] || wrong "the environment leaks"
cat %[1]s/stderr >&2
[ ! -s %[1]s/summary ] || cp %[1]s/summary "$(grep -o '"summary":"[^"]*"' "$params" | cut -d'"' -f4)"
exit %[2]d
`, dir, status)
	t.Setenv("LAB_TEST_SECRET", "x")
	return newEngine(t, dir, script, "")
}

func newEngine(t *testing.T, dir, script, own string) *Engine {
	t.Helper()
	binary := filepath.Join(dir, "k6")
	if err := os.WriteFile(binary, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	sc := analysis.DefaultScenario()
	sc.Endpoints = []analysis.Endpoint{{Name: "root", Method: "GET", Path: "/", Weight: 1}}
	e, err := New(context.Background(), binary, "v2.2.0", own, filepath.Join(dir, "work"), "http://127.0.0.1:1/", sc)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestAStepIsReadFromTheSummary(t *testing.T) {
	e := standIn(t, 0, "", goodSummary)
	s, began, err := e.Step(context.Background(), probe)
	if err != nil {
		t.Fatal(err)
	}
	want := analysis.Step{
		Run: 1, Phase: "ramp", OfferedRPS: 100, Seconds: 10, Arrivals: 1000, Completed: 988, Failed: 10,
		Errors: map[string]int64{"timeout": 4, "status-5xx": 6}, Blocks: []int64{495, 493}, BlockSeconds: 5,
		P50Ms: 12, P95Ms: 19, P99Ms: 40, MeanMs: 15, SendP95Ms: 18.5, InFlightMean: 1.5, InFlightMax: 7, BacklogSlopeRPS: 0.2,
	}
	if got, want := asText(t, s), asText(t, want); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if began.UnixMilli() != 1796032791158 || e.Name() != "k6 v2.2.0" {
		t.Errorf("began %v, engine %s", began, e.Name())
	}
}

func asText(t *testing.T, s analysis.Step) string {
	t.Helper()
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestStepsThatAreNone(t *testing.T) {
	for _, row := range []struct {
		name    string
		status  int
		stderr  string
		summary string
		want    string
	}{
		{"a status", 107, read(t, "exits", "syntax_error.stderr.txt"), "", "Unexpected token"},
		{"a status with a good summary", 99, read(t, "abort-step", "stderr.txt"), goodSummary, "threshold"},
		{"status 0 without a summary", 0, read(t, "exits", "handlesummary_unwritable.stderr.txt"), "", "wrote no summary"},
		{"status 0 and an export", 0, "", read(t, "formats-new.json"), "machine-readable"},
		{"status 0 of a script that tags by itself", 0, "", read(t, "sat-known-1", "handleSummary.json"), "lab.js"},
		{"a default function that is not wrapped", 0, "", strings.Replace(goodSummary, `"lab_started{rate:100}":{"type":"counter","values":{"count":1000}}`, `"lab_started{rate:100}":{"type":"counter","values":{"count":0}}`, 1), "not wrapped"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, _, err := standIn(t, row.status, row.stderr, row.summary).Step(context.Background(), probe)
			if err == nil || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), "stand-in") {
				t.Errorf("%v, want %q", err, row.want)
			}
		})
	}
}

// A target that is down ends k6 well: every request failed, none has a latency,
// and the verdict is target-down, not a p95 of 0 within any target.
func TestATargetThatIsDownIsNoStepWithinTheSLO(t *testing.T) {
	down := strings.NewReplacer(`"count":988`, `"count":0`, `"count":495`, `"count":0`, `"count":493`, `"count":0`,
		`"count":10}`, `"count":1000}`, `kind:timeout`, `kind:dial`, `"avg":15,"p(50)":12,"p(95)":19,"p(99)":40`, `"avg":0,"p(50)":0,"p(95)":0,"p(99)":0`).Replace(goodSummary)
	e := standIn(t, 0, read(t, "exits", "target_down_nothresh.stderr.txt"), down)
	s, _, err := e.Step(context.Background(), probe)
	if err != nil {
		t.Fatal(err)
	}
	s.Run = 0
	v := analysis.Analyze(analysis.Result{Version: 1, RunID: "r", Scenario: e.sc, Steps: []analysis.Step{s}})
	if v.Status != analysis.StatusTargetDown || v.SLOCapacity != "none" || s.Failed != 1000 || s.P95Ms != 0 {
		t.Errorf("%s, SLO %s, step %+v", v.Status, v.SLOCapacity, s)
	}
}

// An earlier step's summary once would have been read when k6 wrote none.
func TestAnOldSummaryIsNotReadAgain(t *testing.T) {
	e := standIn(t, 0, "", goodSummary)
	if _, _, err := e.Step(context.Background(), probe); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(filepath.Dir(e.dir), "summary"), 0); err != nil {
		t.Fatal(err)
	}
	if _, _, err := e.Step(context.Background(), probe); err == nil || !strings.Contains(err.Error(), "wrote no summary") {
		t.Errorf("%v, want no summary", err)
	}
}

// Told to stop, k6 is ended by SIGTERM and waited for.
func TestStopEndsK6(t *testing.T) {
	dir := t.TempDir()
	e := newEngine(t, dir, `#!/bin/bash
[ "$1" != version ] || { echo "k6 v2.2.0"; exit 0; }
trap 'echo ended >../ended; exit 105' TERM
echo ready >../ready
while :; do read -r -t 1 <> <(:) || :; done
`, "")
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		for {
			if _, err := os.Stat(filepath.Join(dir, "ready")); err == nil {
				stop()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	if _, _, err := e.Step(ctx, probe); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the cancellation", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "ended")); err != nil {
		t.Errorf("k6 was not given the time to end: %v", err)
	}
}

func TestTheBinaryIsK6OfThePinnedVersion(t *testing.T) {
	for _, row := range []struct{ prints, want string }{
		{"k6 v2.3.0", "is k6 v2.3.0, pinned is v2.2.0"},
		{"Python 3.11", "is not k6"},
		{"", "is not k6"},
	} {
		binary := filepath.Join(t.TempDir(), "k6")
		if err := os.WriteFile(binary, []byte("#!/bin/sh\necho '"+row.prints+"'\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		_, err := New(context.Background(), binary, "v2.2.0", "", t.TempDir(), "http://x", analysis.DefaultScenario())
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%q: %v, want %q", row.prints, err, row.want)
		}
	}
}

func TestOwnScriptsKeepTheContract(t *testing.T) {
	const good = "import http from 'k6/http';\nimport { measured } from './lab.js';\nexport { options, handleSummary } from './lab.js';\nexport default measured(() => http.get('http://x'));\n"
	if err := CheckScript(good); err != nil {
		t.Error(err)
	}
	for _, word := range []string{"./lab.js", "measured(", "handleSummary", "options"} {
		if err := CheckScript(strings.ReplaceAll(good, word, "")); err == nil || !strings.Contains(err.Error(), "; add ") {
			t.Errorf("without %s: %v", word, err)
		}
	}
}
