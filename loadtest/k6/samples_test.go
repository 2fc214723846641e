package k6

import (
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lab/loadtest/analysis"
)

// recorded is a run of k6 v2.2.0 against a target of this project, with the
// script's parameters. Its samples are all of the run's, less the tags.
type recorded struct {
	name                     string
	from, rise, to           float64
	seconds, discard         float64
	status                   analysis.Status
	leastRPS, mostRPS        float64
	leastKneeRPS, mostSLORPS float64
}

// The target of sat-known holds ten places for 50 ms: 200/s less the overshoot of
// its timer, which leaves the 195/s that it completes of any higher rate. The
// one of sat-sem has a single place, held 5 ms on a machine that was busy with
// other work, so its capacity wandered between 110 and 180/s: no ceiling.
var runs = []recorded{
	{"sat-known-1", 120, 10, 260, 5, 1, analysis.StatusFound, 190, 200, 180, 210},
	{"sat-known-2", 120, 10, 260, 5, 1, analysis.StatusFound, 190, 200, 170, 210},
	{"cap-hit", 40, 20, 200, 4, 1, analysis.StatusCapReached, 200, 200, 200, 200},
	{"sat-sem", 40, 10, 300, 6, 1.5, "", 0, 0, 0, 0},
}

func (r recorded) scenario() analysis.Scenario {
	sc := analysis.DefaultScenario()
	sc.Kind, sc.Engine, sc.Repeats, sc.MaxInFlight = analysis.KindBreakpoint, analysis.EngineK6, 1, 300
	sc.FloorRPS, sc.RiseRPS, sc.CapRPS, sc.StepSeconds, sc.StepDiscard = r.from, r.rise, r.to, r.seconds, r.discard
	return sc
}

// samples are what k6 wrote of a run.
func (r recorded) samples(t *testing.T) io.Reader {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", r.name, "samples.ndjson.gz"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	samples, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	return samples
}

func (r recorded) steps(t *testing.T) []analysis.Step {
	t.Helper()
	steps, err := Samples(r.samples(t), analysis.Schedule(r.scenario()), 300)
	if err != nil {
		t.Fatal(err)
	}
	return steps
}

// table is steps.csv, made from the same samples by an independent program.
func (r recorded) table(t *testing.T) []map[string]float64 {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", r.name, "steps.csv"))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(string(raw))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var all []map[string]float64
	for _, row := range rows[1:] {
		m := map[string]float64{}
		for i, name := range rows[0] {
			if m[name], err = strconv.ParseFloat(row[i], 64); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, m)
	}
	return all
}

func TestStepsOfSamplesEqualTheRecordedTable(t *testing.T) {
	for _, r := range runs {
		steps, table := r.steps(t), r.table(t)
		if len(steps) != len(table) {
			t.Fatalf("%s: %d steps, the table has %d", r.name, len(steps), len(table))
		}
		for i, s := range steps {
			for column, got := range map[string]float64{
				"offered_rps": s.OfferedRPS, "started_rps": float64(s.Arrivals-s.Dropped) / s.Seconds,
				"completed_rps": s.CompletedRPS(), "dropped_rps": float64(s.Dropped) / s.Seconds, "failed": float64(s.Failed),
				"p50_ms": s.P50Ms, "p95_ms": s.P95Ms, "p99_ms": s.P99Ms, "mean_ms": s.MeanMs,
			} {
				if want := table[i][column]; math.Abs(got-want) > 0.05+1e-9 { // the table has one decimal
					t.Errorf("%s at %g/s: %s %.3f, want %.1f", r.name, s.OfferedRPS, column, got, want)
				}
			}
		}
	}
}

// The same analysis as of the built-in engine's steps.
func TestVerdictsOfRecordedRuns(t *testing.T) {
	for _, r := range runs {
		result := analysis.Result{Version: 1, RunID: r.name, Engine: "k6 v2.2.0", Scenario: r.scenario(), Steps: r.steps(t)}
		if err := analysis.Validate(result); err != nil {
			t.Errorf("%s: %v", r.name, err)
		}
		v := analysis.Analyze(result)
		t.Logf("%s: %s, ceiling %s, knee %g, SLO %s, wall %q, invalid %v", r.name, v.Status, v.Ceiling, v.KneeRPS, v.SLOCapacity, v.Wall, v.Invalid)
		if r.status == "" { // a capacity that wanders: any answer but the mean of the run or the cap
			if v.Status == analysis.StatusCapReached || v.CeilingRPS > 185 {
				t.Errorf("%s: %s %s of a target that never completed 185/s for long", r.name, v.Status, v.Ceiling)
			}
			continue
		}
		if v.Status != r.status || v.CeilingRPS < r.leastRPS || v.CeilingRPS > r.mostRPS {
			t.Errorf("%s: %s %g, want %s and %g to %g", r.name, v.Status, v.CeilingRPS, r.status, r.leastRPS, r.mostRPS)
		}
		if v.KneeRPS < r.leastKneeRPS || v.SLOCapacityRPS > r.mostSLORPS {
			t.Errorf("%s: knee %g, SLO capacity %g", r.name, v.KneeRPS, v.SLOCapacityRPS)
		}
	}
}

// Little's law holds for the in-flight mean that is integrated from the samples,
// so a window that is off by a second would show.
func TestInFlightOfSamplesKeepsLittlesLaw(t *testing.T) {
	for _, s := range runs[0].steps(t)[:8] {
		if off := analysis.LittlesResidual(s); off > 0.05 || s.InFlightMean < 5 {
			t.Errorf("at %g/s: %.1f in flight, residual %.3f", s.OfferedRPS, s.InFlightMean, off)
		}
	}
}

func TestSamplesThatAreNone(t *testing.T) {
	schedule := analysis.Schedule(runs[0].scenario())
	for text, want := range map[string]string{
		"":                     "hold no request",
		"{}\nhello\n":          "line 2",
		`{"type":"Metric"}`:    "hold no request",
		`{"type":"Point","x":`: "line 1",
	} {
		if _, err := Samples(strings.NewReader(text), schedule, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// A stored run of the built-in engine against a target of the same ten places
// for 50 ms reads alike: what differs between the engines ends at the steps.
func TestBothEnginesHaveOneAnalysis(t *testing.T) {
	raw, err := os.ReadFile("testdata/builtin-known.json")
	if err != nil {
		t.Fatal(err)
	}
	var stored analysis.Result
	if err := json.Unmarshal(raw, &stored); err != nil {
		t.Fatal(err)
	}
	if err := analysis.Validate(stored); err != nil {
		t.Fatal(err)
	}
	builtin := analysis.Analyze(stored)
	k6 := analysis.Analyze(analysis.Result{Version: 1, RunID: "k6", Scenario: runs[0].scenario(), Steps: runs[0].steps(t)})
	t.Logf("builtin %s, k6 %s", builtin.Ceiling, k6.Ceiling)
	if builtin.Status != analysis.StatusFound || k6.Status != builtin.Status || math.Abs(builtin.CeilingRPS/k6.CeilingRPS-1) > 0.05 {
		t.Errorf("builtin %s %g, k6 %s %g: want both found, within 5 %%", builtin.Status, builtin.CeilingRPS, k6.Status, k6.CeilingRPS)
	}
	if builtin.Wall != k6.Wall {
		t.Errorf("walls %q and %q of steps without a host", builtin.Wall, k6.Wall)
	}
}

// Steps of k6 carry no scheduling lag, and may carry no in-flight figures: that
// must neither invent a reason nor hide a failed step.
func TestTheVerdictStandsWithoutWhatK6DoesNotTell(t *testing.T) {
	full := analysis.Result{Version: 1, RunID: "k6", Scenario: runs[0].scenario(), Steps: runs[0].steps(t)}
	bare := full
	bare.Steps = slices.Clone(full.Steps)
	for i := range bare.Steps {
		s := &bare.Steps[i]
		s.InFlightMean, s.BacklogSlopeRPS, s.Blocks = 0, 0, nil
	}
	want, got := analysis.Analyze(full), analysis.Analyze(bare)
	if got.Status != want.Status || got.CeilingRPS != want.CeilingRPS || got.KneeRPS != want.KneeRPS || len(got.Invalid) > 0 {
		t.Errorf("%s %g knee %g %v, want %s %g knee %g", got.Status, got.CeilingRPS, got.KneeRPS, got.Invalid, want.Status, want.CeilingRPS, want.KneeRPS)
	}
	// The most in flight is needed: without it a drop is the generator's fault.
	for i := range bare.Steps {
		bare.Steps[i].InFlightMax = 0
	}
	if v := analysis.Analyze(bare); v.Status != analysis.StatusGeneratorLimited {
		t.Errorf("drops with nothing in flight: %s, want generator-limited", v.Status)
	}
}
