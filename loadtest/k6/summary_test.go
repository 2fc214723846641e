package k6

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"lab/loadtest/analysis"
)

func read(t *testing.T, parts ...string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(append([]string{"testdata"}, parts...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestOtherSummariesAreRejectedByName(t *testing.T) {
	for _, row := range []struct{ name, text, want string }{
		{"legacy export", read(t, "formats-legacy.json"), "legacy --summary-export"},
		{"machine-readable export", read(t, "formats-new.json"), "machine-readable --summary-export"},
		{"nothing in it", `{"metrics":{}}`, "no metrics"},
		{"cut off", `{"metrics":{"vus":{"values":`, "read the k6 summary"},
		{"empty", ``, "read the k6 summary"},
	} {
		if _, err := ParseSummary([]byte(row.text)); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", row.name, err, row.want)
		}
	}
}

func TestASummaryWithoutDropsHasNone(t *testing.T) {
	none, err := ParseSummary([]byte(read(t, "cap-hit", "handleSummary.json")))
	if err != nil {
		t.Fatal(err)
	}
	some, err := ParseSummary([]byte(read(t, "sat-known-1", "handleSummary.json")))
	if err != nil {
		t.Fatal(err)
	}
	if none.has("dropped_iterations") || none.count("dropped_iterations") != 0 || some.count("dropped_iterations") != 971 {
		t.Errorf("dropped %d and %d, want none and 971", none.count("dropped_iterations"), some.count("dropped_iterations"))
	}
}

// A script that tags its requests by the rate at which they begin credits an
// overloaded step with what is answered after it: 1,050 at 210/s, of which the
// target completed 975 in time. Such a summary must not become a ceiling.
func TestSummariesCountedByStartAreRefused(t *testing.T) {
	for name, rate := range map[string]float64{"sat-known-1": 210, "cap-hit": 200, "abort-step": 180, "abort-global": 100} {
		s, err := ParseSummary([]byte(read(t, name, "handleSummary.json")))
		if err != nil {
			t.Fatal(err)
		}
		probes := []analysis.Probe{{OfferedRPS: rate, Seconds: 5, DiscardSeconds: 1}}
		p, err := NewParams("http://x", analysis.DefaultScenario(), probes, "s")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Read(s, probes); err == nil || !strings.Contains(err.Error(), "measured") || !strings.Contains(err.Error(), "rate "+strconv.FormatFloat(rate, 'f', -1, 64)) {
			t.Errorf("%s: %v, want what to add", name, err)
		}
	}
}

func TestTwoStepsOfOneRateAreRefused(t *testing.T) {
	probes := []analysis.Probe{{OfferedRPS: 20, Seconds: 5}, {OfferedRPS: 20, Seconds: 5}}
	if _, err := NewParams("http://x", analysis.DefaultScenario(), probes, "s"); err == nil {
		t.Error("no error")
	}
}

func TestDropped(t *testing.T) {
	for _, row := range []struct {
		name                     string
		due, started, overflowed int64
		want                     int64
	}{
		{"all began", 600, 600, 0, 0},
		{"one slipped over the window's edge", 600, 599, 0, 0},
		{"k6 was 1 % late, as recorded on a busy machine", 600, 593, 0, 0},
		{"one slipped into it", 600, 601, 0, 0},
		{"k6 dropped them", 1000, 800, 200, 200},
		{"k6 dropped some in the discarded part too", 1000, 800, 260, 200},
		{"k6 dropped in the discarded part only", 1000, 1000, 50, 0},
		{"k6 was too slow and counts none", 1000, 700, 0, 300},
		{"k6 was too slow and counts some", 1000, 700, 100, 300},
	} {
		if got := dropped(row.due, row.started, row.overflowed); got != row.want {
			t.Errorf("%s: %d, want %d", row.name, got, row.want)
		}
	}
}

func TestExitCodesAreExplained(t *testing.T) {
	seen := map[int]bool{}
	for _, line := range strings.Split(strings.TrimSpace(read(t, "exits", "exit_codes.tsv")), "\n") {
		fields := strings.Split(line, "\t")
		code, err := strconv.Atoi(fields[1])
		if err != nil {
			t.Fatal(err)
		}
		seen[code] = true
		stderr := read(t, "exits", strings.TrimSuffix(fields[0], "_once")+".stderr.txt")
		got := exitError(code, stderr)
		if code == 0 {
			if got != nil {
				t.Errorf("%s: %v", fields[0], got)
			}
			continue
		}
		if got == nil || strings.Contains(got.Error(), "unknown to lab") || strings.ContainsAny(got.Error(), "\n\t") {
			t.Errorf("%s: %v", fields[0], got)
		}
		if said := firstError(stderr); said == "" && code != 99 || !strings.Contains(got.Error(), said) {
			t.Errorf("%s: %v does not say %q", fields[0], got, said)
		}
	}
	for code := range exitCodes {
		if !seen[code] {
			t.Errorf("status %d has no recorded run", code)
		}
	}
	for _, name := range []string{"abort-step", "abort-global"} {
		code, err := strconv.Atoi(strings.TrimSpace(read(t, name, "exit_code.txt")))
		if err != nil {
			t.Fatal(err)
		}
		if err := exitError(code, read(t, name, "stderr.txt")); err == nil || !strings.Contains(err.Error(), "http_req_duration") || !strings.Contains(err.Error(), "threshold") {
			t.Errorf("%s: %v, want the threshold crossed", name, err)
		}
	}
	if err := exitError(42, ""); err == nil || !strings.Contains(err.Error(), "42") {
		t.Errorf("an unseen status: %v", err)
	}
}
