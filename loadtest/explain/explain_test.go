package explain

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lab/golden"
	"lab/loadtest/analysis"
	"lab/loadtest/ledger"
)

// load is a real run of the local stack.
func load(t *testing.T) analysis.Result {
	t.Helper()
	all, err := Load("testdata/local.json")
	if err != nil || len(all) != 1 || all[0].Name != "local" {
		t.Fatalf("%+v, %v", all, err)
	}
	return all[0].Result
}

func TestText(t *testing.T) {
	r := load(t)
	golden.Check(t, "testdata/local.txt", Text(r, Options{}))
	ascii := Text(r, Options{ASCII: true, Width: 60})
	golden.Check(t, "testdata/local.ascii.txt", ascii)
	for i, c := range ascii {
		if c > 126 {
			t.Fatalf("%q at %d is not ASCII", c, i)
		}
	}
}

// The picture of docs/measurement.md is this run's.
func TestSVG(t *testing.T) {
	svg, err := SVG(load(t), "A database connection per request")
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "../../docs/curve.svg", svg)
	if _, err := SVG(analysis.Result{RunID: "empty"}, "x"); err == nil {
		t.Error("a run without a step was drawn")
	}
}

func TestTextOfRunsWithoutANumber(t *testing.T) {
	r := load(t)
	for _, row := range []struct {
		name   string
		change func(*analysis.Result)
		want   []string
	}{
		{"aborted", func(r *analysis.Result) { r.Aborted = "the runner was told to stop" }, []string{"none req/s (aborted)", "no number: the run was cut: the runner was told to stop"}},
		{"nothing measured", func(r *analysis.Result) { r.Steps, r.Aborted = nil, "no sampler" }, []string{"no step was measured", "no sampler"}},
		{"a weak generator", func(r *analysis.Result) {
			for i := range r.Steps {
				r.Steps[i].Generator.CPURatio = 0.95
			}
		}, []string{"generator-limited", "load generator CPU at 95%", "load generator cpu"}},
	} {
		changed := r
		changed.Steps = append([]analysis.Step(nil), r.Steps...)
		row.change(&changed)
		text := Text(changed, Options{})
		for _, want := range row.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", row.name, want, text)
			}
		}
	}
}

func TestLoadSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	for _, row := range []struct{ name, text, want string }{
		{"no-json.json", "hello", "no JSON object"},
		{"k6.json", `{"metrics":{}}`, "a summary of k6"},
		{"other.json", `{"version":2,"runId":"x","steps":[]}`, "result version 2"},
		{"empty.jsonl", "", "none of its 0 rows"},
	} {
		path := filepath.Join(dir, row.name)
		if err := os.WriteFile(path, []byte(row.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), row.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want %q and the path", row.name, err, row.want)
		}
	}
	if _, err := Load(filepath.Join(dir, "nowhere.json")); err == nil || !strings.Contains(err.Error(), "results/STACK/") {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestALedgerLeadsToItsRawResults(t *testing.T) {
	raw, err := os.ReadFile("testdata/local.json")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "local.jsonl")
	for _, id := range []string{"a", "b"} {
		if _, err := ledger.AppendMeasured(path, ledger.Measured{Row: ledger.Row{RunID: id, Step: "step " + id}, Result: raw}, os.Stderr); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(filepath.Dir(path), "local", "a.json")); err != nil {
		t.Fatal(err)
	}
	all, err := Load(path)
	if err != nil || len(all) != 1 || all[0].Name != "step b" || len(all[0].Result.Steps) == 0 {
		t.Errorf("%d results, %v; want that of step b", len(all), err)
	}
}
