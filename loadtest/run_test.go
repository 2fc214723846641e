package loadtest

import (
	"strings"
	"testing"
	"time"

	"lab/loadtest/analysis"
)

func TestReadTakesNoTextForAResult(t *testing.T) {
	for _, row := range []struct{ name, stdout, want string }{
		{"text before the result", "step ramp 10 req/s\n{}", "read the load test's result"},
		{"a cut result", `{"version": 1, "runId": "r1"`, "read the load test's result"},
		{"an object that is no result", `{}`, "the load test's result"},
		{"a result without a step", `{"version": 1, "runId": "r1"}`, "without a step"},
		{"a p95 of 0 with completions", `{"version": 1, "runId": "r1", "steps": [{"offeredRps": 10, "seconds": 5, "completed": 50}]}`, "p95"},
	} {
		if _, err := read(row.stdout); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", row.name, err, row.want)
		}
	}
}

func TestATargetThatIsDownIsAResultWithoutANumber(t *testing.T) {
	m, err := read(`{"version": 1, "runId": "r1", "aborted": "before any load, http://lab did not answer",
		"steps": [{"phase": "bracket", "offeredRps": 1, "seconds": 1, "arrivals": 1, "failed": 1}]}`)
	if err != nil || m.verdict.Status != analysis.StatusTargetDown || m.verdict.Ceiling != "none" || m.verdict.SLOCapacity != "none" {
		t.Errorf("%+v, %v; want target-down and no number", m.verdict, err)
	}
}

func TestEveryFigureOfTheResultHasItsUnit(t *testing.T) {
	m, err := read(holds(t))
	if err != nil {
		t.Fatal(err)
	}
	figures, err := m.figures()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ceilingRps", "sloCapacityRps", "kneeRps", "kneeP95Ms", "loadSeconds", "scenarioDigest", "steps", "status", "valid"} {
		if _, ok := figures[name]; !ok {
			t.Errorf("the result has no %s", name)
		}
	}
}

// A search that is at work must not be ended for its length.
func TestTheLimitIsAboveTheLongestSearch(t *testing.T) {
	for _, row := range []struct {
		name                      string
		floor, cap, probe, length float64
	}{
		{"the defaults", 10, 600, 10, 15}, {"one rate only", 10, 10, 6, 12}, {"a wide one", 1, 100_000, 10, 15}, {"long steps", 10, 600, 10, 600},
	} {
		sc := Defaults().Scenario
		sc.FloorRPS, sc.CapRPS, sc.ProbeSeconds, sc.StepSeconds = row.floor, row.cap, row.probe, row.length
		var history []analysis.Step
		var total float64
		for len(history) < 1000 { // the costliest answer: it breaks right below the cap
			p, done := analysis.Next(sc, history)
			if done {
				break
			}
			total += p.Seconds
			window := p.Seconds - p.DiscardSeconds
			completed := int64(min(p.OfferedRPS, row.cap*0.95) * window)
			arrivals := int64(p.OfferedRPS * window)
			history = append(history, analysis.Step{
				Run: p.Run, Phase: p.Phase, OfferedRPS: p.OfferedRPS, Seconds: window, Arrivals: arrivals, Completed: completed, Dropped: arrivals - completed, P95Ms: 5,
			})
		}
		// Around each step an engine may take its patience, and a request its timeout.
		for engine, around := range map[string]time.Duration{analysis.EngineBuiltin: 11 * time.Second, analysis.EngineK6: 70 * time.Second} {
			sc.Engine = engine
			longest := time.Duration(total)*time.Second + time.Duration(len(history))*around + time.Minute
			if limit := maxLoad(sc); limit < longest || len(history) == 1000 {
				t.Errorf("%s, %s: the limit is %v, but the search takes %v: %.0f s of load in %d steps", row.name, engine, limit, longest, total, len(history))
			}
		}
	}
}

// The schedule of a scenario is known: its limit has to hold for every step of it.
// With k6, whose start-up and end are part of no step, that was not so.
func TestTheLimitIsAboveTheLongestSchedule(t *testing.T) {
	sc := Defaults().Scenario
	sc.Engine, sc.Kind, sc.FloorRPS, sc.CapRPS, sc.RiseRPS, sc.StepSeconds, sc.TimeoutMs = analysis.EngineK6, analysis.KindBreakpoint, 1, 500, 1, 6, 2000
	want := 3 * 500 * (6 + 2 + 60) * time.Second
	if limit := maxLoad(sc); limit < want || limit > want+10*time.Minute {
		t.Errorf("the limit of 1,500 steps is %v, want %v and some minutes", limit, want)
	}
}
