package analysis

import (
	"math"
	"slices"
)

// runSteps are the steps of each run, in their order.
func runSteps(history []Step) [][]Step {
	var runs [][]Step
	for _, s := range history {
		for len(runs) <= max(s.Run, 0) {
			runs = append(runs, nil)
		}
		runs[max(s.Run, 0)] = append(runs[max(s.Run, 0)], s)
	}
	return runs
}

// LeftOutCounted is why no step counts of a result that is Unsound.
const LeftOutCounted = "not judged: its requests are counted by their start"

// Why a step does not count.
const (
	leftOutRound  = "an earlier round: the capacity rose since"
	leftOutWarmUp = "failed while the target warmed up"
)

// leftOut says of each step of a run why its verdict is not read from it, "" when
// it is. What came before the last bracket is known not to hold any more; a
// failure of the first run's warm-up is asked again, since a target that starts is
// slow.
func leftOut(sc Scenario, run []Step) []string {
	why := make([]string, len(run))
	from := 0
	for i := 1; i < len(run); i++ {
		if run[i].Phase == PhaseBracket && run[i-1].Phase != PhaseBracket {
			from = i
		}
	}
	for i := range from {
		why[i] = leftOutRound
	}
	if from > 0 || len(run) == 0 || run[0].Run > 0 || sc.Kind != KindSearch {
		return why
	}
	at := 0.0
	for i, s := range run {
		if overloaded(s) && at < sc.WarmupSeconds && s.Phase == PhaseBracket {
			why[i] = leftOutWarmUp
		}
		at += s.Seconds + discard(sc, s)
	}
	return why
}

// considered are the steps of a run that its verdict is read from.
func considered(sc Scenario, run []Step) []Step {
	var out []Step
	for i, why := range leftOut(sc, run) {
		if why == "" {
			out = append(out, run[i])
		}
	}
	return out
}

func discard(sc Scenario, s Step) float64 {
	if s.Phase == PhaseBracket {
		return sc.ProbeDiscard
	}
	return sc.StepDiscard
}

// loadSeconds is how long the steps loaded the target.
func loadSeconds(sc Scenario, steps []Step) float64 {
	sum := 0.0
	for _, s := range steps {
		sum += s.Seconds + discard(sc, s)
	}
	return sum
}

// risen says whether the target's capacity rose within the round, and to what: two
// steps in a row were sustained clearly above what an overload had completed that
// was no higher than the second, or two overloaded steps in a row complete clearly more than
// earlier ones did. Those count only where no more was offered than now: a
// retrograde system completes more the less it is overloaded.
func risen(round []Step) (rose bool, to float64) {
	for i, s := range round {
		before := asLoaded(s, failed(round[:i]))
		if len(before) == 0 {
			continue
		}
		past := median(rates(before))
		if !overloaded(s) {
			if i > 0 && !overloaded(round[i-1]) && min(s.OfferedRPS, round[i-1].OfferedRPS) >= roseSustained*past {
				return true, s.OfferedRPS
			}
			continue
		}
		if i == 0 || !overloaded(round[i-1]) || s.tolerance() >= roseCompleted-1 {
			continue
		}
		earlier := asLoaded(round[i-1], failed(round[:i-1]))
		last := min(round[i-1].CompletedRPS(), s.CompletedRPS())
		if past := median(rates(earlier)); len(earlier) > 0 && last >= roseCompleted*past && last-past > 3*countingNoise(earlier, round[i-1:i+1]) {
			return true, last
		}
	}
	return false, 0
}

// countingNoise is the standard deviation of the difference of two groups' rates
// if completions come at random (Poisson).
func countingNoise(a, b []Step) float64 {
	variance := 0.0
	for _, group := range [][]Step{a, b} {
		seconds, completed := 0.0, 0.0
		for _, s := range group {
			seconds += s.Seconds
			completed += float64(s.Completed)
		}
		variance += completed / max(seconds*seconds, 1e-9)
	}
	return math.Sqrt(variance)
}

// asLoaded are the steps that offered no more than s, but for the rounding.
func asLoaded(s Step, steps []Step) []Step {
	return slices.DeleteFunc(steps, func(other Step) bool { return other.OfferedRPS > 1.01*s.OfferedRPS })
}

func overloaded(s Step) bool { ok, _ := Sustained(s); return !ok }

// failed are the overloaded steps.
func failed(steps []Step) []Step {
	return slices.DeleteFunc(slices.Clone(steps), func(s Step) bool { return !overloaded(s) })
}
