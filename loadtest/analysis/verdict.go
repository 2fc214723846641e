package analysis

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

const retrogradeRatio = 0.9 // completed past the wall ÷ last sustained

// ScenarioDigest identifies a scenario: rows compare only when it is equal.
func ScenarioDigest(sc Scenario) string {
	raw, err := json.Marshal(sc)
	if err != nil {
		panic(err) // numbers and strings only: can't fail unless one is NaN
	}
	return fmt.Sprintf("%x", sha256.Sum256(raw))[:12]
}

// Analyze reads the verdict from what a test measured: each of its runs by
// itself, and their median. It leaves r as it is.
func Analyze(r Result) Verdict { return analyze(r, readings(r)) }

func analyze(r Result, runs []reading) Verdict {
	v := Verdict{ScenarioDigest: ScenarioDigest(r.Scenario), Ceiling: "none", SLOCapacity: "none"}
	middle := together(r, runs, &v)
	v.Status, v.Invalid = check(r, v, middle)
	v.Valid = len(v.Invalid) == 0
	v.Wall, v.Findings = wall(r, v, middle)
	v.CPUSecondsPerRequest = cpuPerRequest(middle.near)
	switch v.Status {
	case StatusFound, StatusRetrograde:
		v.Ceiling = formatRate(v.CeilingRPS)
	case StatusCapReached, StatusSLOMissed:
		v.Ceiling = ">=" + formatRate(v.CeilingRPS)
	default:
		v.CeilingRPS, v.CollapsedRPS, v.LowRPS, v.HighRPS = 0, 0, 0, 0
		return v
	}
	v.SLOCapacityRPS, v.SLOCapacity = sloCapacity(middle.sc, middle.history)
	if v.Status == StatusFound && v.SLOCapacityRPS > v.CeilingRPS {
		// A step a little past the ceiling, within counting noise, ends before its
		// queue has grown to the target: held longer it would miss it.
		v.SLOCapacityRPS, v.SLOCapacity = v.CeilingRPS, v.Ceiling
	}
	if k, ok := knee(middle.steps); ok {
		v.KneeRPS, v.KneeP95Ms = k.OfferedRPS, k.P95Ms
	}
	return v
}

func readings(r Result) []reading {
	var runs []reading
	for _, steps := range runSteps(r.Steps) {
		runs = append(runs, readRun(r.Scenario, steps))
	}
	if len(runs) == 0 {
		runs = append(runs, readRun(r.Scenario, nil))
	}
	return runs
}

// together puts the runs' ceilings into v and returns the middle one, with the
// steps near its ceiling of all of them. One run without a number takes it from
// all: the others were then not of the same system.
func together(r Result, runs []reading, v *Verdict) reading {
	for i, run := range runs {
		v.Runs = append(v.Runs, Run{i, run.status, 0})
		if run.numbered() {
			v.Runs[i].CeilingRPS = run.ceilingRPS
		}
	}
	last := runs[len(runs)-1]
	if r.Aborted != "" && !noAnswer(r.Steps) {
		last.status = StatusAborted
	}
	if !last.numbered() {
		v.Status, v.CeilingRPS, v.CollapsedRPS = last.status, 0, 0
		return last
	}
	sorted := slices.Clone(runs)
	slices.SortStableFunc(sorted, func(a, b reading) int { return cmp.Compare(a.ceilingRPS, b.ceilingRPS) })
	middle := sorted[(len(sorted)-1)/2]
	if len(sorted)%2 == 0 && middle.status == sorted[len(sorted)/2].status {
		middle.ceilingRPS = (middle.ceilingRPS + sorted[len(sorted)/2].ceilingRPS) / 2
	}
	v.Status, v.CeilingRPS, v.CollapsedRPS = middle.status, middle.ceilingRPS, middle.collapsedRPS
	v.NoiseRatio = noise(runs)
	if middle.status == StatusFound || middle.status == StatusRetrograde {
		v.LowRPS, v.HighRPS = interval(runs, r.Scenario.Seed)
	}
	middle.near, middle.around = nil, nil
	for _, run := range runs {
		middle.near, middle.around = append(middle.near, run.near...), append(middle.around, run.around...)
	}
	return middle
}

// judged are the steps that the verdict is read from, by rising rate: the ramp,
// or the bracket when the search did not come that far.
func judged(history []Step) []Step {
	steps, ramp := split(history)
	if len(ramp) > 0 {
		steps = ramp
	}
	slices.SortStableFunc(steps, byRate)
	return steps
}

func byRate(a, b Step) int { return cmp.Compare(a.OfferedRPS, b.OfferedRPS) }

// retrograde says whether the system completes less past its wall than before
// it, by more than the rates are known to. A fit that lies so far below a
// sustained rate says the same: there is no plateau.
func retrograde(history []Step) bool {
	steps := judged(history)
	last, ok := knee(steps)
	if !ok || firstFailure(steps) < 0 {
		return false
	}
	least := min(retrogradeRatio, 1-2*last.tolerance()) * height(steps)
	return collapsed(history) < least || ceiling(history) < least
}

// height is what a collapse falls from: the mean of the two highest rates that
// were sustained below the first failure, so that one sustained by luck does not
// make a plateau look like a collapse.
func height(steps []Step) float64 {
	last := lastSustained(steps)
	for i := firstFailure(steps) - 1; i >= 0; i-- {
		if !overloaded(steps[i]) && steps[i].OfferedRPS < last {
			return (last + steps[i].OfferedRPS) / 2
		}
	}
	return last
}

// firstFailure is the index of the first of two consecutive failures; −1 for none.
func firstFailure(steps []Step) int {
	for i := range steps {
		if trailingFailures(steps[:i+1]) >= failuresToStop {
			return i + 1 - failuresToStop
		}
	}
	return -1
}

// lastSustained is the highest sustained rate below the first failure; 0 for none.
func lastSustained(steps []Step) float64 {
	k, _ := knee(steps)
	return k.OfferedRPS
}

// knee is the last sustained step: beyond it latency is a queue's length.
func knee(steps []Step) (Step, bool) {
	end := firstFailure(steps)
	if end < 0 {
		end = len(steps)
	}
	for i := end - 1; i >= 0; i-- {
		if !overloaded(steps[i]) {
			return steps[i], true
		}
	}
	return Step{}, false
}

// collapsed is the median completed rate from the first failure on.
func collapsed(history []Step) float64 {
	steps := judged(history)
	from := steps[max(firstFailure(steps), 0)].OfferedRPS
	var rates []float64
	for _, s := range evidence(history) {
		if s.OfferedRPS >= from {
			rates = append(rates, s.CompletedRPS())
		}
	}
	return median(rates)
}

// sloCapacity is the highest step of the contiguous run that met the SLO: up the
// ramp from its first step, or, when that one failed already, down the bracket.
func sloCapacity(sc Scenario, history []Step) (rps float64, text string) {
	steps := judged(history)
	bracket, ramp := split(history)
	if len(ramp) > 0 && !inSLO(sc, steps[0]) {
		below := slices.DeleteFunc(bracket, func(s Step) bool { return s.OfferedRPS >= steps[0].OfferedRPS })
		slices.SortStableFunc(below, byRate)
		steps = below
	}
	for _, s := range steps {
		if !inSLO(sc, s) {
			break
		}
		rps = s.OfferedRPS
	}
	switch {
	case rps == 0:
		return 0, "none"
	case rps >= sc.CapRPS:
		return rps, ">=" + formatRate(rps)
	}
	return rps, formatRate(rps)
}

// aroundKnee are the steps near the ceiling that tell what saturated: the last
// sustained one and those past it. Where the ramp's spacing left none of the
// latter, the first one above is taken: below the knee nothing is at its limit.
func aroundKnee(steps, near []Step) []Step {
	first := firstFailure(steps)
	if first < 0 || len(near) == 0 {
		return near
	}
	var around []Step
	for _, s := range near {
		if s.OfferedRPS >= steps[max(first-1, 0)].OfferedRPS {
			around = append(around, s)
		}
	}
	if len(around) == 0 || around[len(around)-1].OfferedRPS < steps[first].OfferedRPS {
		around = append(around, steps[first])
	}
	return around
}

// nearCeiling are the steps at 0.9 to 1.1 of the ceiling; without one, the
// nearest; without a ceiling, the highest.
func nearCeiling(steps []Step, ceiling float64) []Step {
	if len(steps) == 0 {
		return nil
	}
	if ceiling == 0 {
		return steps[len(steps)-1:]
	}
	var near []Step
	nearest := steps[0]
	for _, s := range steps {
		if s.OfferedRPS >= 0.9*ceiling && s.OfferedRPS <= 1.1*ceiling {
			near = append(near, s)
		}
		if math.Abs(s.OfferedRPS-ceiling) < math.Abs(nearest.OfferedRPS-ceiling) {
			nearest = s
		}
	}
	if len(near) == 0 {
		near = []Step{nearest}
	}
	return near
}

// cpuPerRequest is every host's CPU seconds for a completed request.
func cpuPerRequest(steps []Step) map[string]float64 {
	seconds, completed := map[string]float64{}, map[string]float64{}
	for _, s := range steps {
		for _, h := range s.Hosts {
			if h.Samples > 0 {
				seconds[h.Host] += h.CPUSeconds
				completed[h.Host] += float64(s.Completed)
			}
		}
	}
	for host := range seconds {
		seconds[host] /= max(completed[host], 1)
	}
	return seconds
}
