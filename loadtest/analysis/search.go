package analysis

import (
	"cmp"
	"math"
	"slices"
	"strconv"
)

// The phases of a search.
const (
	PhaseBracket = "bracket"
	PhaseRamp    = "ramp"
)

const (
	bracketFactor   = 1.5  // between the probes of the bracket
	rampFrom        = 0.6  // of the bracket's estimate
	rampTo          = 1.3  // of the bracket's estimate
	rampSteps       = 11   // over that range
	failuresToStop  = 2    // consecutive: one bad step is noise
	overloadSteps   = 3    // failed ramp steps that pin the plateau
	stepCompletions = 1000 // a step is lengthened until it holds about so many arrivals
	maxStepSeconds  = 60
)

// Probe is the next constant rate to offer.
type Probe struct {
	Phase          string
	OfferedRPS     float64
	Seconds        float64 // whole length, the discard included
	DiscardSeconds float64
}

// DefaultScenario is the search that the configuration starts from.
func DefaultScenario() Scenario {
	return Scenario{
		Kind: "search", FloorRPS: 10, CapRPS: 600,
		ProbeSeconds: 10, ProbeDiscard: 3, StepSeconds: 15, StepDiscard: 4,
		MaxInFlight: 1000, TimeoutMs: 10_000, SLOP95Ms: 500, SLOErrorRatio: 0.01, Seed: 1,
	}
}

// Next is the search as a state machine: from the steps measured so far it gives
// the next probe, or done. It has no clock and no state.
//
// The bracket multiplies the rate by 1.5 from the floor until two probes in a
// row fail or the cap held. The ramp walks from 0.6 to 1.3 of the bracket's
// estimate and ends early once three failed steps have pinned the plateau.
func Next(sc Scenario, history []Step) (Probe, bool) {
	bracket, ramp := split(history)
	if len(ramp) == 0 {
		if p, more := nextBracket(sc, bracket); more {
			return p, false
		}
	}
	if noAnswer(bracket) || capHeld(sc, bracket) || !anySustained(bracket) {
		return Probe{}, true
	}
	return nextRamp(sc, estimate(bracket), ramp)
}

func split(history []Step) (bracket, ramp []Step) {
	for _, s := range history {
		if s.Phase == PhaseRamp {
			ramp = append(ramp, s)
		} else {
			bracket = append(bracket, s)
		}
	}
	return bracket, ramp
}

func nextBracket(sc Scenario, bracket []Step) (Probe, bool) {
	probe := func(rate float64) (Probe, bool) {
		return Probe{PhaseBracket, rate, sc.ProbeSeconds, sc.ProbeDiscard}, true
	}
	if len(bracket) == 0 {
		return probe(min(sc.FloorRPS, sc.CapRPS))
	}
	if trailingFailures(bracket) >= failuresToStop || noAnswer(bracket) {
		return Probe{}, false
	}
	last := bracket[len(bracket)-1]
	if last.OfferedRPS >= sc.CapRPS {
		if _, failed := failure(last); failed && trailingFailures(bracket) < failuresToStop {
			return probe(sc.CapRPS) // once more: one failure is noise
		}
		return Probe{}, false
	}
	return probe(min(sc.CapRPS, roundRate(last.OfferedRPS*bracketFactor)))
}

func nextRamp(sc Scenario, estimate float64, ramp []Step) (Probe, bool) {
	if trailingFailures(ramp) >= overloadSteps {
		return Probe{}, true
	}
	i := len(ramp)
	if i >= rampSteps {
		return Probe{}, true
	}
	rate := estimate * (rampFrom + (rampTo-rampFrom)*float64(i)/(rampSteps-1))
	if rate > sc.CapRPS {
		if i > 0 && ramp[i-1].OfferedRPS >= sc.CapRPS {
			return Probe{}, true
		}
		rate = sc.CapRPS
	}
	rate = roundRate(rate)
	seconds := min(max(sc.StepSeconds, sc.StepDiscard+stepCompletions/rate), max(sc.StepSeconds, maxStepSeconds))
	return Probe{PhaseRamp, rate, math.Round(seconds), sc.StepDiscard}, false
}

// estimate reads the ceiling off the bracket: an overloaded probe completes
// about what the system can, whatever was offered.
func estimate(bracket []Step) float64 {
	var overloaded []float64
	best := 0.0
	for _, s := range bracket {
		if ok, _ := Sustained(s); ok {
			best = max(best, s.OfferedRPS)
		} else {
			overloaded = append(overloaded, s.CompletedRPS())
		}
	}
	return max(median(overloaded), best)
}

func noAnswer(steps []Step) bool {
	if len(steps) == 0 {
		return false
	}
	for _, s := range steps {
		if s.Completed > 0 {
			return false
		}
	}
	return true
}

func capHeld(sc Scenario, steps []Step) bool {
	for _, s := range steps {
		if ok, _ := Sustained(s); ok && s.OfferedRPS >= sc.CapRPS {
			return true
		}
	}
	return false
}

func anySustained(steps []Step) bool {
	return slices.ContainsFunc(steps, func(s Step) bool { ok, _ := Sustained(s); return ok })
}

func trailingFailures(steps []Step) int {
	n := 0
	for i := len(steps) - 1; i >= 0; i-- {
		if _, failed := failure(steps[i]); !failed {
			break
		}
		n++
	}
	return n
}

// roundRate keeps rates readable: three significant digits.
func roundRate(rate float64) float64 {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(rate, 'g', 3, 64), 64)
	if err != nil {
		return rate // not a number: the plan was checked, so this can't be
	}
	return rounded
}

// median of the values; 0 for none.
func median[T cmp.Ordered](values []T) T {
	var zero T
	if len(values) == 0 {
		return zero
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
