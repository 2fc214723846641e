package results

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lab/loadtest/analysis"
	"lab/loadtest/ledger"
)

const (
	recordedRun = "../explain/testdata/local.json"
	ofK6        = "../k6/testdata/"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWhatIsNoResultIsNamed(t *testing.T) {
	for _, row := range []struct{ name, text, want string }{
		{"no-json.json", "hello", `it begins with "hello"; want a run's raw result`},
		{"list.json", "[1]", `it begins with "[1]"`},
		{"empty.json", "", "no JSON object"},
		{"cut.json", `{"version":1,"steps":[`, "no JSON object"},
		{"other.json", `{"c":1,"b":2,"a":3,"d":4,"f":5,"e":6}`, "a JSON object with the keys [a b c d e …] is no result; want"},
		{"version.json", `{"version":2,"runId":"x","steps":[]}`, "result version 2"},
		{"empty.jsonl", "", "none of its 0 rows"},
		{"k6.json", `{"metrics":{}}`, "no metrics"},
		{"k6.csv", "metric_name,timestamp,metric_value\nhttp_reqs,1,1\n", "k6's CSV (--out csv) can't be read; write k6 run --out json=FILE"},
		{"samples.json", `{"type":"Metric","metric":"http_reqs","data":{}}` + "\n", "hold no request"},
		{"broken.json.gz", "\x1f\x8bxxxxxxxxxx", "gzip"},
	} {
		path := write(t, row.name, row.text)
		if _, err := Load([]string{path}, nil); err == nil || !strings.Contains(err.Error(), row.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want %q and the path", row.name, err, row.want)
		}
	}
	for path, want := range map[string]string{
		ofK6 + "formats-new.json":                "machine-readable --summary-export",
		ofK6 + "formats-legacy.json":             "legacy --summary-export",
		ofK6 + "sat-known-1/samples.ndjson.gz":   "--scenario",
		filepath.Join(t.TempDir(), "nowhere.js"): "results/STACK/",
		ofK6:                                     "is a folder; give its files, such as " + ofK6 + "*.json",
	} {
		if _, err := Load([]string{path}, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

func breakpoint(from, rise, to, seconds float64) *analysis.Scenario {
	sc := analysis.DefaultScenario()
	sc.Kind, sc.Engine, sc.Repeats, sc.MaxInFlight = analysis.KindBreakpoint, analysis.EngineK6, 1, 0
	sc.FloorRPS, sc.RiseRPS, sc.CapRPS, sc.StepSeconds, sc.StepDiscard = from, rise, to, seconds, 1
	return &sc
}

func one(t *testing.T, path string, schedule *analysis.Scenario) analysis.Result {
	t.Helper()
	loaded, err := Load([]string{path}, schedule)
	if err != nil || len(loaded.Results) != 1 || len(loaded.Missing) != 0 {
		t.Fatalf("%s: %+v, %v", path, loaded, err)
	}
	return loaded.Results[0].Result
}

// The recorded runs of k6, as k6 wrote them.
func TestSamplesOfK6(t *testing.T) {
	for _, row := range []struct {
		name     string
		schedule *analysis.Scenario
		status   analysis.Status
		ceiling  float64
	}{
		{"sat-known-1", breakpoint(120, 10, 260, 5), analysis.StatusFound, 195},
		{"sat-known-2", breakpoint(120, 10, 260, 5), analysis.StatusFound, 195},
		{"cap-hit", breakpoint(40, 20, 200, 4), analysis.StatusCapReached, 200},
	} {
		r := one(t, ofK6+row.name+"/samples.ndjson.gz", row.schedule)
		v := analysis.Analyze(r)
		if v.Status != row.status || math.Abs(v.CeilingRPS/row.ceiling-1) > 0.03 {
			t.Errorf("%s: %s %g, want %s %g", row.name, v.Status, v.CeilingRPS, row.status, row.ceiling)
		}
		if len(r.Steps) != len(analysis.Schedule(*row.schedule)) || r.Scenario.MaxInFlight < 5 || r.Engine != "k6" || !strings.HasPrefix(r.Started, "2026-11-30T") || r.LoadSeconds < 36 {
			t.Errorf("%s: %d steps, %d VUs, engine %q, started %q, %g s", row.name, len(r.Steps), r.Scenario.MaxInFlight, r.Engine, r.Started, r.LoadSeconds)
		}
	}
}

// k6's summary counts by an arrival's start, and 1,095 in a step of 219/s that
// completed 979: it is shown, and no number is read from it.
func TestASummaryOfK6CarriesNoNumber(t *testing.T) {
	for _, name := range []string{"sat-known-1", "cap-hit", "abort-step", "abort-global"} {
		r := one(t, ofK6+name+"/handleSummary.json", nil)
		e := analysis.Explain(r)
		v := e.Verdict
		if v.Status != analysis.StatusEnvironmentInvalid || v.Ceiling != "none" || v.SLOCapacity != "none" || !strings.Contains(v.Wall, "k6 run --out json=FILE") {
			t.Errorf("%s: %s %s %s, %q", name, v.Status, v.Ceiling, v.SLOCapacity, v.Wall)
		}
		for _, s := range e.Steps {
			if s.Sustained || s.OnPlateau || s.LeftOut != analysis.LeftOutCounted || s.P95Ms <= 0 {
				t.Errorf("%s: %+v", name, s)
			}
		}
	}
}

func TestALedgerLeadsToItsRawResultsAndNamesTheMissing(t *testing.T) {
	raw, err := os.ReadFile(recordedRun)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "local.jsonl")
	for _, id := range []string{"a", "b"} {
		if _, err := ledger.AppendMeasured(path, ledger.Measured{Row: ledger.Row{RunID: id, Step: "step " + id}, Result: named(t, raw, id)}, os.Stderr); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ledger.Append(path, ledger.Row{RunID: "c", Step: "step c"}, os.Stderr); err != nil {
		t.Fatal(err)
	}
	gone := filepath.Join(filepath.Dir(path), "local", "a.json")
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	loaded, err := Load([]string{path}, nil)
	if err != nil || len(loaded.Results) != 1 || loaded.Results[0].Name != "step b" || len(loaded.Results[0].Result.Steps) == 0 {
		t.Fatalf("%d results, %v; want that of step b", len(loaded.Results), err)
	}
	want := []string{
		path + " row 1 (step a, run a): " + gone + " is not there",
		path + " row 3 (step c, run c): it names no raw result",
	}
	if fmt.Sprint(loaded.Missing) != fmt.Sprint(want) {
		t.Errorf("missing %q, want %q", loaded.Missing, want)
	}
	if err := os.RemoveAll(filepath.Dir(gone)); err != nil {
		t.Fatal(err)
	}
	if _, err := Load([]string{path}, nil); err == nil || !strings.Contains(err.Error(), "none of its 3 rows") {
		t.Errorf("with no raw result at all: %v", err)
	}
}

// named is a raw result under another run id.
func named(t *testing.T, raw []byte, id string) []byte {
	t.Helper()
	var r analysis.Result
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	r.RunID = id
	out, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestOneRunWithTwoContentsIsAnError(t *testing.T) {
	raw, err := os.ReadFile(recordedRun)
	if err != nil {
		t.Fatal(err)
	}
	same := write(t, "same.json", string(raw))
	if _, err := Load([]string{recordedRun, same}, nil); err != nil {
		t.Errorf("the same content twice: %v", err)
	}
	other := write(t, "other.json", strings.Replace(string(raw), `"completed":`, `"completed":1`, 1))
	if string(raw) == strings.Replace(string(raw), `"completed":`, `"completed":1`, 1) {
		t.Fatal("nothing was changed")
	}
	if _, err := Load([]string{recordedRun, other}, nil); err == nil || !strings.Contains(err.Error(), recordedRun) || !strings.Contains(err.Error(), other) {
		t.Errorf("%v, want both files named", err)
	}
}
