package analysis

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// play walks a scenario over a system of that capacity, of requests per second.
func play(sc Scenario, capacity float64, change func(*Step)) Result {
	r := Result{Version: 1, RunID: "r", Scenario: sc}
	for len(r.Steps) < 200 {
		p, done := Next(sc, r.Steps)
		if done {
			break
		}
		s := flat(p.OfferedRPS, capacity)
		s.Run, s.Phase, s.Seconds = p.Run, p.Phase, p.Seconds-p.DiscardSeconds
		s.Arrivals, s.Completed = int64(s.OfferedRPS*s.Seconds), int64(min(s.OfferedRPS, capacity)*s.Seconds)
		if change != nil {
			change(&s)
		}
		r.Steps = append(r.Steps, s)
		r.LoadSeconds += p.Seconds
	}
	return r
}

func offered(r Result) []float64 {
	var all []float64
	for _, s := range r.Steps {
		all = append(all, s.OfferedRPS)
	}
	return all
}

func TestFixedKinds(t *testing.T) {
	kind := func(name string, change func(*Scenario)) Scenario {
		sc := DefaultScenario()
		sc.Kind, sc.Repeats, sc.FloorRPS, sc.CapRPS = name, 1, 40, 100
		if change != nil {
			change(&sc)
		}
		return sc
	}
	slow := func(above float64) func(*Step) {
		return func(s *Step) {
			if s.OfferedRPS > above {
				s.P95Ms = 6000
			}
		}
	}
	for _, row := range []struct {
		name     string
		scenario Scenario
		capacity float64
		change   func(*Step)
		offered  []float64
		status   Status
		ceiling  string
	}{
		{"a breakpoint rises until three steps failed", kind(KindBreakpoint, nil), 60, nil, []float64{40, 50, 60, 70, 80, 90}, StatusFound, "60"},
		{"a breakpoint ends at its cap", kind(KindBreakpoint, nil), 1000, nil, []float64{40, 50, 60, 70, 80, 90, 100}, StatusCapReached, ">=100"},
		{"a breakpoint offers a cap between two rises", kind(KindBreakpoint, func(sc *Scenario) { sc.RiseRPS = 25 }), 1000, nil, []float64{40, 65, 90, 100}, StatusCapReached, ">=100"},
		{"a ramp walks all its stages", kind(KindRamp, func(sc *Scenario) { sc.Stages = []Stage{{20, 30}, {50, 30}, {200, 30}, {90, 30}} }), 1000, nil, []float64{20, 50, 200, 90}, StatusCapReached, ">=200"},
		{"a ramp past the wall", kind(KindRamp, func(sc *Scenario) { sc.Stages = []Stage{{50, 30}, {100, 30}, {150, 30}, {200, 30}} }), 110, nil, []float64{50, 100, 150, 200}, StatusFound, "110"},
		{"untilSLO ends at the first slow step", kind(KindUntilSLO, func(sc *Scenario) { sc.SLOP95Ms = 5000 }), 1000, slow(60), []float64{40, 50, 60, 70}, StatusSLOMissed, ">=70"},
		{"untilSLO within its SLO reaches the cap", kind(KindUntilSLO, nil), 1000, nil, []float64{40, 50, 60, 70, 80, 90, 100}, StatusCapReached, ">=100"},
		{"steady is one rate", kind(KindSteady, nil), 1000, nil, []float64{40}, StatusCapReached, ">=40"},
		{"steady above the wall", kind(KindSteady, nil), 30, nil, []float64{40}, StatusFloorTooHigh, "none"},
	} {
		r := play(row.scenario, row.capacity, row.change)
		v := Analyze(r)
		if !slices.Equal(offered(r), row.offered) || v.Status != row.status || v.Ceiling != row.ceiling {
			t.Errorf("%s: offered %v, %s, ceiling %s, %v; want %v, %s, %s", row.name, offered(r), v.Status, v.Ceiling, v.Invalid, row.offered, row.status, row.ceiling)
		}
		if r.LoadSeconds > MaxSeconds(row.scenario) {
			t.Errorf("%s: %g s of load, more than MaxSeconds says (%g)", row.name, r.LoadSeconds, MaxSeconds(row.scenario))
		}
	}
}

// Write-up 000's breakpoint needs 136 minutes from 40 to 1,400 req/s.
func TestFixedRampSeconds(t *testing.T) {
	if got := FixedRampSeconds(40, 1400); got != 136*60 {
		t.Errorf("%g s, want %d", got, 136*60)
	}
}

func TestRepeats(t *testing.T) {
	sc := DefaultScenario()
	sc.FloorRPS, sc.CapRPS = 50, 5000
	for _, row := range []struct {
		name       string
		capacities []float64 // by run
		status     Status
		ceiling    string
		shown      string
	}{
		{"three equal runs", []float64{1400, 1400, 1400}, StatusFound, "1400", "1,400 ±0.2 % (3 runs)"},
		{"the median of three", []float64{1400, 1370, 1440}, StatusFound, "1400", "1,400 ±2.9 % (3 runs)"},
		{"runs that differ by more than 10 %", []float64{1000, 1120, 1000}, StatusEnvironmentInvalid, "none", "none"},
		{"a repeat far below is asked again from its own bracket, and differs", []float64{1400, 700, 1400}, StatusEnvironmentInvalid, "none", "none"},
	} {
		r := Result{Version: 1, RunID: "r", Scenario: sc}
		for len(r.Steps) < 200 {
			p, done := Next(sc, r.Steps)
			if done {
				break
			}
			s := flat(p.OfferedRPS, row.capacities[p.Run])
			s.Run, s.Phase = p.Run, p.Phase
			r.Steps = append(r.Steps, s)
		}
		v := Analyze(r)
		if v.Status != row.status || v.Ceiling != row.ceiling || len(v.Runs) != 3 || Row("x", v).Ceiling != row.shown {
			t.Errorf("%s: %s, %s, %q, runs %+v, %v; want %s, %s, %q", row.name, v.Status, v.Ceiling, Row("x", v).Ceiling, v.Runs, v.Invalid, row.status, row.ceiling, row.shown)
		}
	}
}

func TestARunWithoutACeilingIsNotRepeated(t *testing.T) {
	sc := DefaultScenario()
	sc.FloorRPS, sc.CapRPS, sc.WarmupSeconds = 50, 5000, 0
	r := play(sc, 20, nil)
	if v := Analyze(r); v.Status != StatusFloorTooHigh || len(v.Runs) != 1 {
		t.Errorf("%s after %d runs", v.Status, len(v.Runs))
	}
}

func TestCompare(t *testing.T) {
	sc := DefaultScenario()
	sc.FloorRPS, sc.CapRPS = 50, 5000
	result := func(capacity float64) Result { return play(sc, capacity, nil) }
	for _, row := range []struct {
		name      string
		a, b      Result
		different bool
	}{
		{"a clear gain", result(300), result(600), true},
		{"within the intervals", result(300), result(300.5), false},
	} {
		c, err := Compare(row.a, row.b, false)
		if err != nil || c.Unknown != "" || c.Different != row.different || c.LowRatio > c.Ratio || c.HighRatio < c.Ratio {
			t.Errorf("%s: %+v, %v", row.name, c, err)
		}
	}
	single := sc
	single.Repeats = 1
	for _, row := range [][2]Result{{result(300), play(single, 600, nil)}, {play(single, 300, nil), result(600)}} {
		c, err := Compare(row[0], row[1], true)
		if err != nil || c.Different || c.LowRatio != 0 || c.HighRatio != 0 || !strings.Contains(c.Unknown, "no interval") ||
			!strings.Contains(c.Sentence, "scenario.repeats: 3") || strings.Contains(c.Sentence, "no difference") {
			t.Errorf("of a single run: %+v, %v; want unknown, and the fix", c, err)
		}
	}
	other := sc
	other.SLOP95Ms++
	if _, err := Compare(result(300), play(other, 300, nil), false); err == nil {
		t.Error("results of different scenarios were compared")
	}
	if c, err := Compare(result(300), play(other, 300, nil), true); err != nil || c.Different {
		t.Errorf("asked to, they were not compared: %+v, %v", c, err)
	}
	if _, err := Compare(result(300), play(sc, 9999, nil), false); err == nil {
		t.Error("a result without a ceiling was compared")
	}
}

// Every figure of the verdict can be found again in its explanation.
func TestExplain(t *testing.T) {
	sc := DefaultScenario()
	sc.FloorRPS, sc.CapRPS = 50, 5000
	seen := 0
	r := play(sc, 300, func(s *Step) {
		if seen++; seen == 2 {
			s.Completed /= 2 // in the warm-up
		}
		s.Hosts = []HostUse{{Host: "app", Roles: []string{"app"}, Samples: 9, CPUs: 1, CPURatio: 0.96, PSICPURatio: -1, DiskRatio: -1}}
	})
	e := Explain(r)
	if e.Verdict.Status != StatusFound || len(e.Steps) != len(r.Steps) {
		t.Fatalf("%s, %d of %d steps", e.Verdict.Status, len(e.Steps), len(r.Steps))
	}
	if e.Steps[1].LeftOut != leftOutWarmUp || e.Steps[1].Sustained {
		t.Errorf("the failure of the warm-up: %+v", e.Steps[1])
	}
	completed, seconds, near := 0.0, 0.0, 0
	for i, s := range e.Steps {
		if s.OnPlateau && s.Run == 0 {
			completed, seconds = completed+float64(r.Steps[i].Completed), seconds+r.Steps[i].Seconds
		}
		if s.NearCeiling {
			near++
		}
	}
	if got := completed / seconds; got != e.Verdict.Runs[0].CeilingRPS || near == 0 {
		t.Errorf("the plateau's mean is %g, the first run's ceiling %g; %d steps near it", got, e.Verdict.Runs[0].CeilingRPS, near)
	}
	if len(e.Watched) != 2 || e.Watched[0] != (Watched{"app", "cpu", 0.96, hotCPU, true}) {
		t.Errorf("watched %+v", e.Watched)
	}
}

// The marked steps once were those around the mean, and their mean was then
// another number than the one printed.
func TestTheMarkedStepsGiveThePrintedCeiling(t *testing.T) {
	sc := DefaultScenario()
	sc.FloorRPS, sc.CapRPS, sc.Repeats = 50, 5000, 1
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 7))
		r := play(sc, 300, func(s *Step) {
			if s.OfferedRPS > 300 {
				s.Completed = int64(float64(s.Completed) * (1 + 0.04*random.NormFloat64()))
			}
		})
		e := Explain(r)
		if e.Verdict.Status != StatusFound {
			continue
		}
		completed, seconds := 0.0, 0.0
		for i, s := range e.Steps {
			if s.OnPlateau {
				completed, seconds = completed+float64(r.Steps[i].Completed), seconds+r.Steps[i].Seconds
			}
		}
		if got := completed / seconds; math.Abs(got-e.Verdict.CeilingRPS) > 1e-9 {
			t.Errorf("seed %d: the marked steps give %g, the ceiling is %g", seed, got, e.Verdict.CeilingRPS)
		}
	}
}
