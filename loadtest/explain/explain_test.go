package explain

import (
	"strings"
	"testing"

	"lab/golden"
	"lab/loadtest/analysis"
	"lab/loadtest/results"
)

// load is a real run of the local stack.
func load(t *testing.T) analysis.Result {
	t.Helper()
	loaded, err := results.Load([]string{"testdata/local.json"}, nil)
	if err != nil || len(loaded.Results) != 1 || loaded.Results[0].Name != "local" {
		t.Fatalf("%+v, %v", loaded, err)
	}
	return loaded.Results[0].Result
}

func TestText(t *testing.T) {
	r := load(t)
	golden.Check(t, "testdata/local.txt", Text("local", r, Options{}))
	ascii := Text("local", r, Options{ASCII: true, Width: 60})
	golden.Check(t, "testdata/local.ascii.txt", ascii)
	for i, c := range ascii {
		if c > 126 {
			t.Fatalf("%q at %d is not ASCII", c, i)
		}
	}
}

func TestTextNamesSeveralGenerators(t *testing.T) {
	r := load(t)
	r.Generators = []analysis.Share{{Host: "loadgen", Ratio: 0.667}, {Host: "loadgen2", Ratio: 0.333}}
	if text := Text("local", r, Options{}); !strings.Contains(text, " steps, shared by loadgen (67 %), loadgen2 (33 %)\n") {
		t.Errorf("the load is not said to be shared: %s", text)
	}
}

func TestTextOfRunsWithoutANumber(t *testing.T) {
	r := load(t)
	for _, row := range []struct {
		name   string
		change func(*analysis.Result)
		want   []string
	}{
		{"aborted", func(r *analysis.Result) { r.Aborted = "the runner was told to stop" }, []string{"ceiling        none (aborted)", "no number: the run was cut: the runner was told to stop"}},
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
		text := Text("x", changed, Options{})
		for _, want := range row.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", row.name, want, text)
			}
		}
	}
}
