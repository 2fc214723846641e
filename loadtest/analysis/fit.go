package analysis

import (
	"math"
	"slices"
)

const plateauBand = 0.05 // around the fit, or 1.5 tolerances: overloaded steps within it tell the plateau

// ceiling fits the steps, the bracket's failed probes among them, in two passes:
// the hockey stick finds the plateau whatever some steps say, and the completed
// rate of all overloaded steps that lie on it is their mean, which counts every
// completion and so is steadier than the fit's median.
func ceiling(history []Step) float64 {
	completed, seconds := 0.0, 0.0
	for _, s := range plateau(history) {
		completed += float64(s.Completed)
		seconds += s.Seconds
	}
	if seconds == 0 {
		return hockeyStick(evidence(history))
	}
	return completed / seconds
}

// plateau are the overloaded steps that lie around the fit: those whose mean is the
// ceiling, whose blocks give its interval, and that explain marks.
func plateau(history []Step) []Step {
	steps := evidence(history)
	c := hockeyStick(steps)
	return slices.DeleteFunc(steps, func(s Step) bool { return !onPlateau(s, c) })
}

func onPlateau(s Step, c float64) bool {
	return overloaded(s) && s.arrivedRPS() > c && math.Abs(s.CompletedRPS()-c) <= max(plateauBand, 1.5*s.tolerance())*c
}

// evidence are the judged steps and, beside a ramp, the failed probes of the
// bracket: an overloaded system completes what it can at any offered rate.
func evidence(history []Step) []Step {
	steps := judged(history)
	bracket, ramp := split(history)
	if len(ramp) == 0 {
		return steps
	}
	steps = append(steps, failed(bracket)...)
	slices.SortStableFunc(steps, byRate)
	return steps
}

// hockeyStick fits X = min(λ, C) to the steps by least absolute deviations,
// weighted by their lengths, and returns C. The minimum of such a sum lies where
// it bends: at a completed or an arrived rate, so trying those is exact.
func hockeyStick(steps []Step) float64 {
	loss := func(c float64) float64 {
		sum := 0.0
		for _, s := range steps {
			sum += s.Seconds * math.Abs(s.CompletedRPS()-min(s.arrivedRPS(), c))
		}
		return sum
	}
	best, at := math.Inf(1), 0.0
	for _, s := range steps {
		for _, c := range []float64{s.CompletedRPS(), s.arrivedRPS()} {
			if l := loss(c); l < best-1e-9 || (math.Abs(l-best) <= 1e-9 && c < at) {
				best, at = l, c
			}
		}
	}
	return at
}
