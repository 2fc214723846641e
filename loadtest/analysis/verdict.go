package analysis

import (
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

// Analyze reads the verdict from what a run measured. It leaves r as it is.
func Analyze(r Result) Verdict {
	v := Verdict{ScenarioDigest: ScenarioDigest(r.Scenario), Ceiling: "none", SLOCapacity: "none"}
	steps := judged(r.Steps)
	v.Status = status(r, steps)
	switch v.Status {
	case StatusFound:
		v.CeilingRPS = ceiling(r.Steps)
	case StatusRetrograde:
		v.CeilingRPS, v.CollapsedRPS = lastSustained(steps), collapsed(r.Steps)
	case StatusCapReached:
		v.CeilingRPS = r.Scenario.CapRPS
	}
	near := nearCeiling(steps, v.CeilingRPS)
	around := aroundKnee(steps, near)
	v.Status, v.Invalid = check(r, v, steps, around)
	v.Valid = len(v.Invalid) == 0
	v.Wall, v.Findings = wall(r, v, steps, around)
	v.CPUSecondsPerRequest = cpuPerRequest(near)
	switch v.Status {
	case StatusFound, StatusRetrograde:
		v.Ceiling = formatRate(v.CeilingRPS)
	case StatusCapReached:
		v.Ceiling = ">=" + formatRate(v.CeilingRPS)
	default:
		v.CeilingRPS, v.CollapsedRPS = 0, 0
		return v
	}
	v.SLOCapacityRPS, v.SLOCapacity = sloCapacity(r)
	if v.Status == StatusFound && v.SLOCapacityRPS > v.CeilingRPS {
		// A step a little past the ceiling, within counting noise, ends before its
		// queue has grown to the target: held longer it would miss it.
		v.SLOCapacityRPS, v.SLOCapacity = v.CeilingRPS, v.Ceiling
	}
	if k, ok := knee(steps); ok {
		v.KneeRPS, v.KneeP95Ms = k.OfferedRPS, k.P95Ms
	}
	return v
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

func byRate(a, b Step) int {
	switch {
	case a.OfferedRPS < b.OfferedRPS:
		return -1
	case a.OfferedRPS > b.OfferedRPS:
		return 1
	}
	return 0
}

func status(r Result, steps []Step) Status {
	switch {
	case noAnswer(r.Steps) || len(r.Steps) == 0 && r.Aborted == "":
		return StatusTargetDown
	case r.Aborted != "":
		return StatusAborted
	case silent(r.Steps):
		return StatusTargetDown
	case !anySustained(r.Steps):
		return StatusFloorTooHigh
	}
	switch first := firstFailure(steps); {
	case first < 0 && capHeld(r.Scenario, steps):
		return StatusCapReached
	case first <= 0: // the ramp did not meet the bracket's wall, or started past it
		return StatusEnvironmentInvalid
	case retrograde(r.Steps):
		return StatusRetrograde
	}
	return StatusFound
}

// retrograde says whether the system completes less past its wall than before
// it, by more than the rates are known to. A fit that lies so far below a
// sustained rate says the same: there is no plateau.
func retrograde(history []Step) bool {
	steps := judged(history)
	last, ok := knee(steps)
	if !ok || firstFailure(steps) < 0 {
		return false
	}
	least := min(retrogradeRatio, 1-2*last.tolerance()) * last.OfferedRPS
	return collapsed(history) < least || ceiling(history) < least
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
		if ok, _ := Sustained(steps[i]); ok {
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
func sloCapacity(r Result) (rps float64, text string) {
	steps := judged(r.Steps)
	bracket, ramp := split(r.Steps)
	if len(ramp) > 0 && !inSLO(r.Scenario, steps[0]) {
		below := slices.DeleteFunc(bracket, func(s Step) bool { return s.OfferedRPS >= steps[0].OfferedRPS })
		slices.SortStableFunc(below, byRate)
		steps = below
	}
	for _, s := range steps {
		if !inSLO(r.Scenario, s) {
			break
		}
		rps = s.OfferedRPS
	}
	switch {
	case rps == 0:
		return 0, "none"
	case rps >= r.Scenario.CapRPS:
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

// Compare gives the ceiling of b ÷ that of a. It refuses results of different
// scenarios, and those that have no ceiling.
func Compare(a, b Result) (ratio float64, err error) {
	if da, db := ScenarioDigest(a.Scenario), ScenarioDigest(b.Scenario); da != db {
		return 0, fmt.Errorf("compare runs %s and %s: their scenarios differ (%s, %s)", a.RunID, b.RunID, da, db)
	}
	va, vb := Analyze(a), Analyze(b)
	for id, v := range map[string]Verdict{a.RunID: va, b.RunID: vb} {
		if v.Status != StatusFound {
			return 0, fmt.Errorf("compare runs %s and %s: %s has no ceiling, its status is %s", a.RunID, b.RunID, id, v.Status)
		}
	}
	return vb.CeilingRPS / va.CeilingRPS, nil
}
