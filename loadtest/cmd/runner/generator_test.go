package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lab/loadtest/analysis"
	"lab/loadtest/plan"
)

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
