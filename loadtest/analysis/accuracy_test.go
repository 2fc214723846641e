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
// percentile of the error of one run, in percent.
func TestAccuracy(t *testing.T) {
	scenario := DefaultScenario()
	scenario.FloorRPS, scenario.CapRPS = 20, 5000
	for _, row := range []struct {
		name      string
		system    system
		low, high float64
		statuses  []Status
	}{
		{"M/M/4, 260/s", system{capacity: 260, servers: 4}, -2, 2, []Status{StatusFound}},
		{"M/M/9, 1400/s", system{capacity: 1400, servers: 9}, -1.5, 1.5, []Status{StatusFound}},
		{"M/D/1, 200/s", system{capacity: 200, servers: 1, fixed: true}, -2, 2, []Status{StatusFound}},
		{"M/M/4, 30/s", system{capacity: 30, servers: 4}, -5, 5, []Status{StatusFound}},
		{"5 % capacity noise", system{capacity: 260, servers: 4, noise: 0.05}, -10, 8, []Status{StatusFound}},
		{"retrograde", system{capacity: 260, servers: 4, thrash: 0.002}, -12, 1, []Status{StatusRetrograde}},
	} {
		const seeds = 40
		var errors, load []float64
		labelled := 0
		for seed := range uint64(seeds) {
			r := search(row.system, scenario, seed)
			v := Analyze(r)
			if slices.Contains(row.statuses, v.Status) {
				labelled++
				errors = append(errors, 100*(v.CeilingRPS/row.system.capacity-1))
			}
			load = append(load, r.LoadSeconds)
		}
		if labelled < seeds*9/10 {
			t.Errorf("%s: %d of %d runs were %v", row.name, labelled, seeds, row.statuses)
			continue
		}
		slices.Sort(errors)
		slices.Sort(load)
		low, high := errors[len(errors)*5/100], errors[len(errors)*95/100]
		fixed := 60 * max(1, math.Ceil((1.3*row.system.capacity-40)/10))
		t.Logf("%-20s error %+5.1f .. %+5.1f %%, load %3.0f s (at most %3.0f s; +10 a minute: %.0f s)", row.name, low, high, median(load), load[len(load)-1], fixed)
		if low < row.low || high > row.high {
			t.Errorf("%s: error %+.1f .. %+.1f %%, want %+.1f .. %+.1f %%", row.name, low, high, row.low, row.high)
		}
		if longest := load[len(load)-1]; longest > maxLoadSeconds {
			t.Errorf("%s: %.0f s of load, want at most %d", row.name, longest, maxLoadSeconds)
		}
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
