package analysis

import (
	"math"
	"slices"
	"testing"
)

// maxLoadSeconds is the longest that a search may load a lab.
const maxLoadSeconds = 600

// TestAccuracy compares the searches' ceilings with the known capacities of
// simulated systems, over many seeds. The bounds are the 5th and the 95th
// percentile of the error of one run, in percent; the median of five runs and the
// time under load are printed beside them.
func TestAccuracy(t *testing.T) {
	scenario := DefaultScenario()
	scenario.FloorRPS, scenario.CapRPS = 20, 5000
	for _, row := range []struct {
		name      string
		system    system
		low, high float64
		status    Status
	}{
		{"M/M/4, 260/s", system{capacity: 260, servers: 4}, -1.6, 1.6, StatusFound},
		{"M/M/9, 1400/s", system{capacity: 1400, servers: 9}, -1, 0.8, StatusFound},
		{"M/D/1, 200/s", system{capacity: 200, servers: 1, fixed: true}, -0.5, 0.5, StatusFound},
		{"M/M/4, 30/s", system{capacity: 30, servers: 4}, -4.5, 4.5, StatusFound},
		{"5 % capacity noise", system{capacity: 260, servers: 4, noise: 0.05}, -7, 7, StatusFound},
		{"retrograde", system{capacity: 260, servers: 4, thrash: 0.002}, -8.5, 0, StatusRetrograde},
		{"sharply retrograde", system{capacity: 260, servers: 4, thrash: 0.01}, -17, 0, StatusRetrograde},
	} {
		const seeds = 40
		var errors, load []float64
		for seed := range uint64(seeds) {
			r := search(row.system, scenario, seed)
			load = append(load, r.LoadSeconds)
			if v := Analyze(r); v.Status == row.status {
				errors = append(errors, 100*(v.CeilingRPS/row.system.capacity-1))
			}
		}
		if len(errors) < seeds*95/100 {
			t.Errorf("%s: %d of %d runs were %s", row.name, len(errors), seeds, row.status)
		}
		var ofFive []float64
		for i := 0; i+5 <= len(errors); i++ {
			ofFive = append(ofFive, median(errors[i:i+5]))
		}
		low, high := ends(errors)
		low5, high5 := ends(ofFive)
		longest := slices.Max(load)
		t.Logf("%-20s one run %+5.1f .. %+5.1f %%, median of five %+5.1f .. %+5.1f %%, load %3.0f s (at most %3.0f s)", row.name, low, high, low5, high5, median(load), longest)
		if low < row.low || high > row.high {
			t.Errorf("%s: error %+.1f .. %+.1f %%, want %+.1f .. %+.1f %%", row.name, low, high, row.low, row.high)
		}
		if longest > maxLoadSeconds {
			t.Errorf("%s: %.0f s of load, want at most %d", row.name, longest, maxLoadSeconds)
		}
	}
}

// ends are the 5th and the 95th percentile.
func ends(values []float64) (low, high float64) {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)*5/100], sorted[len(sorted)*95/100]
}

func TestNoRateIsAboveTheCapAndNoStepShorterThanItsScenario(t *testing.T) {
	for seed := range uint64(30) {
		scenario := DefaultScenario()
		scenario.FloorRPS, scenario.CapRPS = 20+float64(seed), 240.7+3*float64(seed)
		r := search(system{capacity: 260, servers: 4}, scenario, seed)
		for _, s := range r.Steps {
			if s.OfferedRPS > scenario.CapRPS || s.Phase == PhaseRamp && s.Seconds < scenario.StepSeconds-scenario.StepDiscard {
				t.Errorf("seed %d: %s at %g/s over %g s, cap %g/s", seed, s.Phase, s.OfferedRPS, s.Seconds, scenario.CapRPS)
			}
		}
		v := Analyze(r)
		wrong := v.Status == StatusCapReached && scenario.CapRPS > 1.04*260 || v.Status == StatusFound && math.Abs(v.CeilingRPS/260-1) > 0.05
		if wrong || v.Status != StatusFound && v.Status != StatusCapReached {
			t.Errorf("seed %d: cap %g/s, %s %s (%v)", seed, scenario.CapRPS, v.Status, v.Ceiling, v.Invalid)
		}
	}
}

// A rate that is falling while the ramp sees it has no plateau: the fit lay a
// quarter below a rate that had been sustained, and was called found.
func TestAFallingRateIsRetrogradeAndNotFound(t *testing.T) {
	r := Result{Version: 1, RunID: "r", Scenario: DefaultScenario()}
	for _, x := range [][2]float64{{137, 137}, {169, 169}, {201, 201}, {233, 233}, {241, 241}, {245, 226}, {249, 226}, {264, 222}, {280, 152}, {296, 149}} {
		r.Steps = append(r.Steps, flat(x[0], x[1]))
	}
	bracket := []Step{flat(228, 228), flat(342, 145), flat(513, 131)}
	for i := range bracket {
		bracket[i].Phase = PhaseBracket
	}
	r.Steps = slices.Concat(bracket, r.Steps)
	if v := Analyze(r); v.Status != StatusRetrograde || v.Ceiling != "241" || v.CollapsedRPS >= 0.9*241 {
		t.Errorf("%s, ceiling %s, collapsed %g; want retrograde, 241", v.Status, v.Ceiling, v.CollapsedRPS)
	}
}

func TestSystemsWithoutACeilingPrintNoNumber(t *testing.T) {
	scenario := DefaultScenario()
	scenario.FloorRPS, scenario.CapRPS = 20, 600
	for seed := range uint64(20) {
		for _, row := range []struct {
			name    string
			system  system
			status  Status
			ceiling string
		}{
			{"never saturates", system{capacity: 5000, servers: 8}, StatusCapReached, ">=600"},
			{"dies during the bracket", system{capacity: 400, servers: 4, diesAt: 33}, StatusTargetDown, "none"},
			{"dies during the ramp", system{capacity: 260, servers: 4, diesAt: 110}, StatusTargetDown, "none"},
			{"is down from the start", system{capacity: 260, servers: 4, diesAt: 1e-9}, StatusTargetDown, "none"},
			{"the floor is above it", system{capacity: 8, servers: 2}, StatusFloorTooHigh, "none"},
		} {
			v := Analyze(search(row.system, scenario, seed))
			if v.Status != row.status || v.Ceiling != row.ceiling {
				t.Errorf("%s, seed %d: %s, %s; want %s, %s (%v)", row.name, seed, v.Status, v.Ceiling, row.status, row.ceiling, v.Invalid)
			}
			if v.Ceiling == "none" && (v.CeilingRPS != 0 || v.Valid) {
				t.Errorf("%s, seed %d: ceiling %g, valid %t", row.name, seed, v.CeilingRPS, v.Valid)
			}
		}
	}
}

func TestBracketStopsAtTheCapAndAsksItTwiceBeforeItFails(t *testing.T) {
	scenario := DefaultScenario()
	scenario.FloorRPS, scenario.CapRPS = 100, 120
	ok := func(rate float64) Step {
		return Step{Phase: PhaseBracket, OfferedRPS: rate, Seconds: 10, Arrivals: int64(10 * rate), Completed: int64(10 * rate)}
	}
	full := func(s Step) Step {
		s.Phase = PhaseRamp
		return s
	}
	bad := func(rate float64) Step {
		s := ok(rate)
		s.Completed /= 2
		return s
	}
	for _, row := range []struct {
		name    string
		history []Step
		want    float64
		done    bool
	}{
		{"starts at the floor", nil, 100, false},
		{"goes no higher than the cap", []Step{ok(100)}, 120, false},
		{"offers a cap that held once more as a full step", []Step{ok(100), ok(120)}, 120, false},
		{"is done when it held again", []Step{ok(100), ok(120), full(ok(120))}, 0, true},
		{"asks the cap again after one failure", []Step{ok(100), bad(120)}, 120, false},
		{"goes on to the ramp after two", []Step{ok(100), bad(120), bad(120)}, 60, false},
	} {
		p, done := Next(scenario, row.history)
		if done != row.done || math.Abs(p.OfferedRPS-row.want) > 1e-9 {
			t.Errorf("%s: %g, done %t; want %g, %t", row.name, p.OfferedRPS, done, row.want, row.done)
		}
	}
}
