package analysis

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"sort"
)

const (
	retrogradeRatio  = 0.9 // completed past the wall ÷ last sustained
	generatorCPU     = 0.80
	generatorNIC     = 0.85
	maxStealRatio    = 0.10
	littlesResidual  = 0.10
	utilisationSlack = 1.10 // X·S above so much of the cap contradicts it
)

// ScenarioDigest identifies a scenario: rows compare only when it is equal.
func ScenarioDigest(sc Scenario) string {
	raw, err := json.Marshal(sc)
	if err != nil {
		panic(err) // numbers and strings only: can't fail unless one is NaN
	}
	return fmt.Sprintf("%x", sha256.Sum256(raw))[:12]
}

// Analyze reads the verdict from what a run measured.
func Analyze(r Result) Verdict {
	v := Verdict{ScenarioDigest: ScenarioDigest(r.Scenario), Ceiling: "none", SLOCapacity: "none"}
	_, ramp := split(r.Steps)
	steps := ramp
	if len(steps) == 0 {
		steps = r.Steps
	}
	sortSteps(steps)
	v.Status = status(r, steps)
	last := lastSustained(steps)
	switch v.Status {
	case StatusFound:
		v.CeilingRPS = hockeyStick(steps)
	case StatusRetrograde:
		v.CeilingRPS, v.CollapsedRPS = last, collapsed(steps)
	case StatusCapReached:
		v.CeilingRPS = r.Scenario.CapRPS
	}
	v.Invalid = invalid(r, v, steps)
	if len(v.Invalid) > 0 && (v.Status == StatusFound || v.Status == StatusRetrograde) {
		v.Status = StatusEnvironmentInvalid
		if generatorLimited(nearCeiling(steps, v.CeilingRPS)) {
			v.Status = StatusGeneratorLimited
		}
	}
	v.Valid = len(v.Invalid) == 0
	v.SLOCapacityRPS, v.SLOCapacity = sloCapacity(r.Scenario, r.Steps)
	if k, ok := knee(steps); ok {
		v.KneeRPS, v.KneeP95Ms = k.OfferedRPS, k.P95Ms
	}
	near := nearCeiling(steps, v.CeilingRPS)
	v.Wall, v.Findings = wall(r, v, near)
	v.CPUSecondsPerRequest = cpuPerRequest(near)
	switch v.Status {
	case StatusFound, StatusRetrograde:
		v.Ceiling = formatRate(v.CeilingRPS)
	case StatusCapReached:
		v.Ceiling = ">=" + formatRate(v.CeilingRPS)
	default:
		v.CeilingRPS, v.CollapsedRPS = 0, 0
	}
	return v
}

func status(r Result, steps []Step) Status {
	switch {
	case noAnswer(r.Steps) || len(r.Steps) == 0 && r.Aborted == "":
		return StatusTargetDown
	case r.Aborted != "":
		return StatusAborted
	case !anySustained(r.Steps):
		return StatusFloorTooHigh
	case noAnswer(steps[len(steps)-1:]):
		return StatusTargetDown
	}
	first := firstFailure(steps)
	if first < 0 {
		if steps[len(steps)-1].OfferedRPS >= r.Scenario.CapRPS {
			return StatusCapReached
		}
		return StatusEnvironmentInvalid // the bracket saw a wall that the ramp did not meet
	}
	if first == 0 {
		return StatusEnvironmentInvalid // the ramp starts far below the bracket's estimate
	}
	if collapsed(steps) < retrogradeRatio*lastSustained(steps) {
		return StatusRetrograde
	}
	return StatusFound
}

// firstFailure is the index of the first of two consecutive failures, or of a
// failure at the end; −1 for none.
func firstFailure(steps []Step) int {
	for i := range steps {
		if ok, _ := Sustained(steps[i]); ok {
			continue
		}
		if i+1 == len(steps) {
			return i
		}
		if ok, _ := Sustained(steps[i+1]); !ok {
			return i
		}
	}
	return -1
}

func lastSustained(steps []Step) float64 {
	end := firstFailure(steps)
	if end < 0 {
		end = len(steps)
	}
	for i := end - 1; i >= 0; i-- {
		if ok, _ := Sustained(steps[i]); ok {
			return steps[i].OfferedRPS
		}
	}
	return 0
}

// collapsed is the median completed rate beyond the first failure.
func collapsed(steps []Step) float64 {
	var rates []float64
	for i := max(firstFailure(steps), 0); i < len(steps); i++ {
		rates = append(rates, steps[i].CompletedRPS())
	}
	return median(rates)
}

// knee is the last sustained step: beyond it latency is a queue's length.
func knee(steps []Step) (Step, bool) {
	last := lastSustained(steps)
	for _, s := range steps {
		if s.OfferedRPS == last && s.Completed > 0 {
			return s, true
		}
	}
	return Step{}, false
}

// sloCapacity is the highest step of the contiguous run, from the lowest rate
// up, that met the SLO.
func sloCapacity(sc Scenario, steps []Step) (float64, string) {
	ordered := append([]Step{}, steps...)
	sortSteps(ordered)
	best := 0.0
	for _, s := range ordered {
		if !inSLO(sc, s) {
			break
		}
		best = s.OfferedRPS
	}
	switch {
	case best == 0:
		return 0, "none"
	case best >= sc.CapRPS:
		return best, ">=" + formatRate(best)
	}
	return best, formatRate(best)
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

// invalid lists why the figures can't carry a number.
func invalid(r Result, v Verdict, steps []Step) []string {
	var why []string
	near := nearCeiling(steps, v.CeilingRPS)
	if r.Aborted != "" {
		why = append(why, "the run was cut: "+r.Aborted)
	}
	switch v.Status {
	case StatusTargetDown:
		return append(why, "the target did not answer")
	case StatusFloorTooHigh:
		return append(why, fmt.Sprintf("the floor of %s req/s was too much already; lower scenario.floorRps", formatRate(r.Scenario.FloorRPS)))
	case StatusEnvironmentInvalid:
		why = append(why, "the bracket and the ramp contradict each other; the system or its surroundings changed during the run")
	}
	if generatorLimited(near) {
		g := generator(near)
		why = append(why, fmt.Sprintf("load generator CPU at %d%%, NIC at %d%%", percent(g.CPURatio), percent(nicRatio(g))))
	}
	for _, h := range hosts(near) {
		if h.StealRatio >= maxStealRatio {
			why = append(why, fmt.Sprintf("steal on %s at %d%%: the physical machine was busy with others", h.Host, percent(h.StealRatio)))
		}
	}
	return append(why, laws(near)...)
}

// laws checks the figures against Little's law (N = X·R) and the utilisation law
// (CPU seconds used ≤ cap × time), for steps whose backlog is steady.
func laws(near []Step) []string {
	var why []string
	for _, s := range near {
		for _, h := range s.Hosts {
			if h.Samples > 0 && h.CPUs > 0 && s.Seconds > 0 && h.CPUSeconds > utilisationSlack*h.CPUs*s.Seconds {
				why = append(why, fmt.Sprintf("%s used %.2f CPU seconds in %.0f s at a cap of %g CPUs: impossible", h.Host, h.CPUSeconds, s.Seconds, h.CPUs))
			}
		}
		if ok, _ := Sustained(s); !ok || s.InFlightMean < 5 {
			continue // in a growing queue, or with few in flight, the two sides differ by right
		}
		if off := math.Abs(s.InFlightMean-s.CompletedRPS()*s.MeanMs/1000) / s.InFlightMean; off > 2*littlesResidual {
			why = append(why, fmt.Sprintf("at %s req/s %.1f in flight is not rate × latency (%.0f%% off, Little's law)", formatRate(s.OfferedRPS), s.InFlightMean, 100*off))
		}
	}
	return why
}

func generatorLimited(near []Step) bool {
	g := generator(near)
	return g.Samples > 0 && (g.CPURatio >= generatorCPU || nicRatio(g) >= generatorNIC)
}

// cpuPerRequest is every host's CPU seconds for a completed request.
func cpuPerRequest(near []Step) map[string]float64 {
	seconds, completed := map[string]float64{}, 0.0
	for _, s := range near {
		completed += float64(s.Completed)
		for _, h := range s.Hosts {
			if h.Samples > 0 {
				seconds[h.Host] += h.CPUSeconds
			}
		}
	}
	for host := range seconds {
		seconds[host] /= max(completed, 1)
	}
	return seconds
}

func sortSteps(steps []Step) {
	sort.SliceStable(steps, func(i, j int) bool { return steps[i].OfferedRPS < steps[j].OfferedRPS })
}
