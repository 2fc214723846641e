package analysis

import (
	"fmt"
	"slices"
)

// reading is what one run says, before the machines and the laws are looked at.
type reading struct {
	sc           Scenario
	history      []Step // considered: the last round, without the warm-up's failures
	steps        []Step // judged: by rising rate
	status       Status
	ceilingRPS   float64 // StatusFound and StatusRetrograde; the cap for StatusCapReached; the last sustained rate for StatusSLOMissed
	collapsedRPS float64
	near, around []Step // near the ceiling; of those, from the knee on
	why          string // of StatusEnvironmentInvalid
}

// readRun reads one run. sc is the result's scenario; of a fixed schedule the cap
// is the highest rate that it offers.
func readRun(sc Scenario, run []Step) reading {
	sc.CapRPS = TopRPS(sc)
	r := reading{sc: sc, history: considered(sc, run)}
	r.steps = judged(r.history)
	r.status, r.why = r.judge(run)
	switch r.status {
	case StatusFound:
		r.ceilingRPS = ceiling(r.history)
	case StatusRetrograde:
		r.ceilingRPS, r.collapsedRPS = lastSustained(r.steps), collapsed(r.history)
	case StatusCapReached:
		r.ceilingRPS = sc.CapRPS
	case StatusSLOMissed:
		r.ceilingRPS = lastSustained(r.steps)
	}
	r.near = nearCeiling(r.steps, r.ceilingRPS)
	r.around = aroundKnee(r.steps, r.near)
	return r
}

func (r reading) judge(run []Step) (status Status, why string) {
	if silent(run) || len(run) == 0 {
		return StatusTargetDown, ""
	}
	if !anySustained(r.history) {
		if least := lowest(r.history); least > r.sc.FloorRPS && anySustained(run) {
			return StatusEnvironmentInvalid, fmt.Sprintf("the capacity was still falling when the time was up: %s req/s were too many at last, and %s were sustained before; "+
				"look at what changed in the target during the run", formatRate(least), formatRate(sustainedMost(run)))
		}
		return StatusFloorTooHigh, ""
	}
	if rose, to := risen(r.history); rose {
		return StatusEnvironmentInvalid, fmt.Sprintf("the capacity was still rising when the time was up: %s req/s completed at last, of %s in the overload before; "+
			"warm the target up, fix its number of replicas, or raise scenario.settleSeconds", formatRate(to), formatRate(median(rates(failed(r.history)))))
	}
	first := firstFailure(r.steps)
	switch {
	case first < 0 && capHeld(r.sc, r.steps):
		return StatusCapReached, ""
	case first < 0 && r.sc.Kind == KindUntilSLO && len(r.steps) > 0 && !inSLO(r.sc, r.steps[len(r.steps)-1]) && lastSustained(r.steps) > 0:
		return StatusSLOMissed, ""
	case first <= 0:
		return StatusEnvironmentInvalid, r.contradiction(first)
	case retrograde(r.history):
		return StatusRetrograde, ""
	}
	return StatusFound, ""
}

// sustainedMost is the highest rate that was sustained, whenever.
func sustainedMost(steps []Step) float64 {
	most := 0.0
	for _, s := range steps {
		if !overloaded(s) {
			most = max(most, s.OfferedRPS)
		}
	}
	return most
}

// contradiction says which steps do not go together when there is no knee.
func (r reading) contradiction(first int) string {
	bracket, ramp := split(r.history)
	over, kept := 0.0, sustainedMost(bracket)
	for _, s := range failed(bracket) {
		if over == 0 || s.OfferedRPS < over {
			over = s.OfferedRPS
		}
	}
	const because = "; the system or its surroundings changed during the run"
	last := r.steps[len(r.steps)-1].OfferedRPS
	switch {
	case len(ramp) == 0:
		return fmt.Sprintf("the bracket ended at %s req/s without a wall", formatRate(last))
	case first == 0 && kept > 0:
		return fmt.Sprintf("the bracket and the ramp contradict each other: %s req/s were sustained at first, and later %s were too many%s",
			formatRate(kept), formatRate(r.steps[0].OfferedRPS), because)
	case first == 0:
		return fmt.Sprintf("%s req/s, the first rate of the ramp, were too many already%s", formatRate(r.steps[0].OfferedRPS), because)
	case over > 0:
		return fmt.Sprintf("the bracket and the ramp contradict each other: %s req/s were too many at first, and later no two steps in a row failed up to %s%s",
			formatRate(over), formatRate(last), because)
	}
	return fmt.Sprintf("no two steps in a row failed up to %s req/s, and the cap of %s did not hold", formatRate(last), formatRate(r.sc.CapRPS))
}

// numbered says whether the run gave a ceiling or a bound.
func (r reading) numbered() bool {
	return slices.Contains([]Status{StatusFound, StatusRetrograde, StatusCapReached, StatusSLOMissed}, r.status)
}
