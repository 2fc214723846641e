package analysis

import "math"

const (
	searchSeconds   = 600 // of load: the longest run of the default steps
	fixedRampEvery  = 60  // seconds a step of the published breakpoint scenario
	fixedRampRise   = 10  // req/s between two of its steps
	maxFixedProbes  = 10_000
	defaultStepUnit = 15.0 // step and probe lengths that searchSeconds is meant for
	defaultProbe    = 10.0
)

// Next is the load test as a state machine: from the steps measured so far, in
// their order, it gives the next probe, or done. It has no clock and no state.
// Runs follow each other until there are sc.Repeats; after a run that gave no
// ceiling there is no other.
func Next(sc Scenario, history []Step) (Probe, bool) {
	runs := runSteps(history)
	if len(runs) == 0 {
		runs = [][]Step{nil}
	}
	last := len(runs) - 1
	p, done := nextInRun(sc, runs[0], runs[last], last)
	if done && last+1 < sc.Repeats && readRun(sc, runs[last]).numbered() {
		last++
		p, done = nextInRun(sc, runs[0], nil, last)
	}
	p.Run = last
	return p, done
}

func nextInRun(sc Scenario, first, run []Step, number int) (Probe, bool) {
	if sc.Kind != KindSearch {
		return nextScheduled(sc, run)
	}
	around := 0.0
	if number > 0 {
		around = readRun(sc, first).ceilingRPS
	}
	return nextSearch(sc, around, run)
}

// nextScheduled walks a fixed schedule. A breakpoint ends once three failed steps
// have shown the plateau, untilSLO at the first step outside the SLO.
func nextScheduled(sc Scenario, run []Step) (Probe, bool) {
	schedule := Schedule(sc)
	n := len(run)
	if n >= len(schedule) || silent(run) {
		return Probe{}, true
	}
	ended := sc.Kind == KindBreakpoint && trailingFailures(run) >= overloadSteps ||
		sc.Kind == KindUntilSLO && n > 0 && !inSLO(sc, run[n-1])
	return schedule[n], ended
}

// Schedule is every probe of one run of a kind whose rates do not depend on what
// is measured; nil for the search.
func Schedule(sc Scenario) []Probe {
	probe := func(rate, seconds float64) Probe {
		return Probe{0, PhaseRamp, rate, seconds, min(sc.StepDiscard, seconds/2)}
	}
	var all []Probe
	switch sc.Kind {
	case KindSteady:
		all = []Probe{probe(sc.FloorRPS, sc.StepSeconds)}
	case KindRamp:
		for _, stage := range sc.Stages {
			all = append(all, probe(stage.RPS, stage.Seconds))
		}
	case KindBreakpoint, KindUntilSLO:
		for len(all) < maxFixedProbes {
			rate := sc.FloorRPS + sc.RiseRPS*float64(len(all))
			all = append(all, probe(min(rate, sc.CapRPS), sc.StepSeconds))
			if rate >= sc.CapRPS || sc.RiseRPS <= 0 {
				break
			}
		}
	}
	return all
}

// TopRPS is the highest rate that a scenario may offer.
func TopRPS(sc Scenario) float64 {
	if sc.Kind == KindSearch {
		return sc.CapRPS
	}
	top := 0.0
	for _, p := range Schedule(sc) {
		top = max(top, p.OfferedRPS)
	}
	return top
}

// MaxSeconds is the longest that a scenario can load its target, all runs
// together; what is between the steps comes to it.
func MaxSeconds(sc Scenario) float64 {
	seconds := 0.0
	for _, p := range Schedule(sc) {
		seconds += p.Seconds
	}
	if sc.Kind == KindSearch {
		seconds = budgetSeconds(sc)
	}
	return float64(max(sc.Repeats, 1)) * seconds
}

// MaxSteps is the most steps that a scenario can take, all runs together.
func MaxSteps(sc Scenario) int {
	steps := len(Schedule(sc))
	if sc.Kind == KindSearch {
		steps = int(math.Ceil(budgetSeconds(sc) / max(min(sc.ProbeSeconds, sc.StepSeconds), 1)))
	}
	return max(sc.Repeats, 1) * steps
}

// budgetSeconds bounds the load of one run of a search: ten minutes, and more in
// proportion where the scenario's steps are longer than the default ones.
func budgetSeconds(sc Scenario) float64 {
	return searchSeconds * max(1, sc.StepSeconds/defaultStepUnit, sc.ProbeSeconds/defaultProbe)
}

// FixedRampSeconds is how long the published breakpoint scenario, 10 req/s more
// each minute, takes from one rate to another.
func FixedRampSeconds(from, to float64) float64 {
	return fixedRampEvery * math.Ceil(max(0, to-from)/fixedRampRise)
}
