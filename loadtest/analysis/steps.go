package analysis

import (
	"slices"
	"strconv"
)

// split parts the steps into the bracket and what came after it.
func split(history []Step) (bracket, ramp []Step) {
	for _, s := range history {
		if s.Phase == PhaseBracket {
			bracket = append(bracket, s)
		} else {
			ramp = append(ramp, s)
		}
	}
	return bracket, ramp
}

// lowest is the lowest rate of the steps; 0 for none.
func lowest(steps []Step) float64 {
	least := 0.0
	for _, s := range steps {
		if least == 0 || s.OfferedRPS < least {
			least = s.OfferedRPS
		}
	}
	return least
}

// silent says whether the target stopped answering: nothing completed in the
// last two steps, or in the only one.
func silent(history []Step) bool {
	n := len(history)
	return n > 0 && noAnswer(history[max(0, n-failuresToStop):])
}

func noAnswer(steps []Step) bool {
	return len(steps) > 0 && !slices.ContainsFunc(steps, func(s Step) bool { return s.Completed > 0 })
}

func anySustained(steps []Step) bool {
	return slices.ContainsFunc(steps, func(s Step) bool { return !overloaded(s) })
}

func trailingFailures(steps []Step) int {
	n := 0
	for i := len(steps) - 1; i >= 0; i-- {
		if !overloaded(steps[i]) {
			break
		}
		n++
	}
	return n
}

// rates are the completed rates of the steps.
func rates(steps []Step) []float64 {
	var all []float64
	for _, s := range steps {
		all = append(all, s.CompletedRPS())
	}
	return all
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
func median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
