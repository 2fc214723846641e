package analysis

import "slices"

const bracketFactor = 1.5 // between the probes of the bracket

func bracketProbe(sc Scenario, rate float64) Probe {
	return Probe{0, PhaseBracket, min(sc.CapRPS, roundRate(rate)), sc.ProbeSeconds, sc.ProbeDiscard}
}

func nextBracket(sc Scenario, bracket []Step) (Probe, bool) {
	if len(bracket) == 0 {
		return Probe{0, PhaseBracket, min(sc.CapRPS, sc.FloorRPS), sc.ProbeSeconds, sc.ProbeDiscard}, true
	}
	failures := trailingFailures(bracket)
	last := bracket[len(bracket)-1].OfferedRPS
	switch descended := last < bracket[0].OfferedRPS; {
	case descended && failures == 0:
		return Probe{}, false
	case failures >= failuresToStop && !anySustained(bracket) && lowest(bracket) > sc.FloorRPS:
		// A later round, which does not begin at the floor, began past the wall.
		return bracketProbe(sc, max(sc.FloorRPS, lowest(bracket)/bracketFactor)), true
	case failures >= failuresToStop || last >= sc.CapRPS && failures == 0:
		return Probe{}, false
	case last >= sc.CapRPS:
		return bracketProbe(sc, sc.CapRPS), true // once more: one failure is noise
	}
	return bracketProbe(sc, last*bracketFactor), true
}

// estimate reads the ceiling off the bracket: an overloaded probe completes
// about what the system can, whatever was offered.
func estimate(bracket []Step) float64 {
	best := median(rates(failed(bracket)))
	for _, s := range bracket {
		if !overloaded(s) {
			best = max(best, s.OfferedRPS)
		}
	}
	return best
}

func capHeld(sc Scenario, steps []Step) bool {
	return slices.ContainsFunc(steps, func(s Step) bool {
		return !overloaded(s) && s.OfferedRPS >= sc.CapRPS
	})
}
