package analysis

import (
	"math"
	"slices"
)

const (
	maxRampSteps   = 22   // when the range had to be left upwards
	maxStepSeconds = 60.0 // a slow step is lengthened to hold Scenario.StepArrivals, up to here
	maxRampSeconds = 420  // from then on two failures are enough

	pinnedSpread      = 0.02   // the overloaded steps agree so well, or
	pinnedCompletions = 12_000 // counting noise of their sum, 1/√n, is below 1 %

	maxRefined = 2     // steps between the last sustained and the first failed one
	refinedGap = 1.025 // of the two rates: closer is close enough
)

// walk is the range of a ramp, as ratios of the estimate that it is laid around.
type walk struct {
	from, to float64
	steps    int
}

var (
	firstWalk  = walk{0.6, 1.3, 11}  // around a bracket's estimate
	slowWalk   = walk{0.75, 1.3, 7}  // the same in long steps, for which a run has less room
	repeatWalk = walk{0.85, 1.27, 8} // around the first run's ceiling
)

func nextRamp(sc Scenario, around float64, bracket, ramp []Step) (Probe, bool) {
	w := repeatWalk
	if len(bracket) > 0 {
		around, w = estimate(bracket), firstWalk
		if around < rampSlow(sc) {
			w = slowWalk
		}
	}
	main := ramp[:climbed(ramp)]
	if rampDone(sc, w, main) {
		if p, done := refine(sc, slices.Concat(bracket, ramp), len(ramp)-len(main)); !done {
			return p, false
		}
		return hold(sc, bracket, ramp)
	}
	from, to := w.from*min(around, sc.CapRPS), min(w.to*around, sc.CapRPS)
	return rampProbe(sc, from+(to-from)*float64(len(main))/float64(w.steps-1)), false
}

// rampSlow is the rate below which a step is so long that the first walk takes
// more than its time.
func rampSlow(sc Scenario) float64 {
	return float64(sc.StepArrivals) / (maxRampSeconds/float64(firstWalk.steps) - sc.StepDiscard)
}

// climbed is the length of the ramp's rising part.
func climbed(ramp []Step) int {
	for i := 1; i < len(ramp); i++ {
		if ramp[i].OfferedRPS < ramp[i-1].OfferedRPS || ramp[i].Phase == PhaseHold {
			return i
		}
	}
	return len(ramp)
}

// rampDone says whether the ramp has shown both sides of the knee, or never will.
func rampDone(sc Scenario, w walk, ramp []Step) bool {
	n, failures := len(ramp), trailingFailures(ramp)
	if n == 0 {
		return false
	}
	if ramp[n-1].OfferedRPS >= sc.CapRPS {
		once := n < 2 || ramp[n-2].OfferedRPS < sc.CapRPS
		return failures == 0 || failures >= failuresToStop || !once
	}
	switch {
	case n >= maxRampSteps || failures == n && n >= overloadSteps:
		return true
	case n == w.steps || loadSeconds(sc, ramp) >= maxRampSeconds:
		return failures >= failuresToStop
	case n > w.steps: // the wall is above where the bracket saw it
		return failures >= overloadSteps
	}
	return failures >= overloadSteps && pinned(ramp[n-failures:])
}

// pinned says whether overloaded steps tell the plateau to about a percent.
func pinned(overloaded []Step) bool {
	completed := int64(0)
	for _, s := range overloaded {
		completed += s.Completed
	}
	all := rates(overloaded)
	return completed >= pinnedCompletions || slices.Max(all)-slices.Min(all) <= pinnedSpread*median(all)
}

// refine halves the gap below a collapse: with a plateau the fit reads the
// ceiling off that, but a retrograde system has none and its last sustained rate
// is known to the ramp's spacing only.
func refine(sc Scenario, history []Step, refined int) (Probe, bool) {
	steps := judged(history)
	first := firstFailure(steps)
	if refined >= maxRefined || history[len(history)-1].Phase == PhaseHold || !retrograde(history) {
		return Probe{}, true
	}
	last := lastSustained(steps)
	if steps[first].OfferedRPS <= refinedGap*last {
		return Probe{}, true
	}
	return rampProbe(sc, (last+steps[first].OfferedRPS)/2), false
}

func rampProbe(sc Scenario, rate float64) Probe {
	rate = min(sc.CapRPS, roundRate(rate))
	seconds := sc.StepSeconds
	if longer := math.Ceil(sc.StepDiscard + float64(sc.StepArrivals)/rate); longer > seconds {
		seconds = max(seconds, min(longer, maxStepSeconds))
	}
	return Probe{0, PhaseRamp, rate, seconds, sc.StepDiscard}
}
