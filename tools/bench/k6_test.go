package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// summaryOf prints what handleSummary makes of a summary, and the executor of the
// script's scenario, which its environment decides.
const summaryOf = `
globalThis.__ENV = { RATE: process.argv[1], CONNECTIONS: '50', SECONDS: '2.5' };
const { handleSummary, options } = await import('./bench.mjs');
const { executor, duration } = options.scenarios.bench;
process.stderr.write(executor + ' ' + duration);
process.stdout.write(handleSummary(JSON.parse(process.argv[2])).stdout);
`

func TestK6TellsWhatItsSummaryHolds(t *testing.T) {
	dir := t.TempDir()
	module := filepath.Join(dir, "node_modules/k6")
	err := errors.Join(
		os.MkdirAll(module, 0o700),
		os.WriteFile(filepath.Join(module, "package.json"), []byte(`{"exports": {"./http": "./http.mjs"}}`), 0o600),
		os.WriteFile(filepath.Join(module, "http.mjs"), []byte("export default {};"), 0o600),
		os.WriteFile(filepath.Join(dir, "bench.mjs"), k6Script, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name, rate, summary, scenario string
		want                          told
	}{
		{
			"a rate, with failures and drops", "1000",
			`{"metrics": {"http_reqs": {"values": {"count": 2400}}, "http_req_failed": {"values": {"passes": 30, "fails": 2370}},
			  "dropped_iterations": {"values": {"count": 100}}, "http_req_duration": {"values": {"p(50)": 0.5, "p(95)": 2, "p(99)": 9.5}}}}`,
			"constant-arrival-rate 2500ms", told{Answered: 2370, Failed: 30, Dropped: 100, P50Ms: 0.5, P95Ms: 2, P99Ms: 9.5, LagP50Ms: unknown},
		},
		{
			"no rate, and no counter of drops", "0",
			`{"metrics": {"http_reqs": {"values": {"count": 10}}, "http_req_failed": {"values": {"passes": 0, "fails": 10}},
			  "http_req_duration": {"values": {"p(50)": 1, "p(95)": 2, "p(99)": 3}}}}`,
			"constant-vus 2500ms", told{Answered: 10, P50Ms: 1, P95Ms: 2, P99Ms: 3, LagP50Ms: unknown},
		},
		{"nothing at all", "0", `{"metrics": {}}`, "constant-vus 2500ms", told{LagP50Ms: unknown}},
	} {
		t.Run(row.name, func(t *testing.T) {
			cmd := exec.Command("node", "--input-type=module", "-e", summaryOf, row.rate, row.summary)
			cmd.Dir = dir
			var stderr strings.Builder
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v (scripts/setup.sh test installs node): %s", err, &stderr)
			}
			if stderr.String() != row.scenario {
				t.Errorf("scenario %q, want %q", &stderr, row.scenario)
			}
			if got, err := parseK6(out); err != nil || got != row.want {
				t.Errorf("%+v, %v; want %+v", got, err, row.want)
			}
		})
	}
}
