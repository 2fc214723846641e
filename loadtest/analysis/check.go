package analysis

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

const (
	generatorCPU     = 0.80
	generatorNIC     = 0.85
	generatorLagMs   = 10.0 // median send later than intended: the generator's own doing
	inFlightFull     = 0.95 // of the in-flight cap
	maxStealRatio    = 0.10
	maxForeignRatio  = 0.20 // of the physical machine's CPUs
	littlesSuspect   = 0.10 // residual of Little's law that is worth a finding
	littlesInvalid   = 0.20 // residual that no sampling explains
	littlesMinimum   = 5.0  // in flight; with fewer the edges of the window weigh too much
	utilisationSlack = 1.10 // X·S above so much of the cap contradicts it
)

// check lists why the figures can't carry a number (rule 0), and turns a status
// that would print one into what stands against it.
func check(r Result, v Verdict, m reading) (Status, []string) {
	if r.Unsound != "" {
		return StatusEnvironmentInvalid, []string{r.Unsound}
	}
	var why []string
	if r.Aborted != "" {
		why = append(why, "the run was cut: "+r.Aborted)
	}
	why = append(why, lostNodes(r.Steps)...)
	switch v.Status {
	case StatusTargetDown:
		return v.Status, append(why, "the target did not answer")
	case StatusFloorTooHigh:
		return v.Status, append(why, fmt.Sprintf("the floor of %s req/s was too much already; lower scenario.floorRps", formatRate(r.Scenario.FloorRPS)))
	case StatusEnvironmentInvalid:
		why = append(why, m.why)
	}
	if v.NoiseRatio > maxNoiseRatio {
		why = append(why, differing(v))
	}
	weak := weakGenerator(r.Scenario, m.steps, m.around)
	crowded := environment(m.around)
	switch {
	case v.Status == StatusAborted || len(why)+len(weak)+len(crowded) == 0:
		return v.Status, slices.Concat(why, weak, crowded)
	case len(weak) > 0: // steps that contradict each other are what a weak generator gives
		return StatusGeneratorLimited, slices.Concat(weak, why, crowded)
	}
	return StatusEnvironmentInvalid, slices.Concat(why, crowded)
}

// differing says how far the runs are apart.
func differing(v Verdict) string {
	var all []string
	for _, run := range v.Runs {
		all = append(all, formatRate(run.CeilingRPS))
	}
	return fmt.Sprintf("the runs differ by %d%% (%s req/s): more than their noise; look for what else ran, or raise scenario.repeats",
		percent(v.NoiseRatio), strings.Join(all, ", "))
}

// weakGenerator says how the generator, not the target, set the limit.
func weakGenerator(sc Scenario, steps, near []Step) []string {
	var why []string
	all := generators(near)
	for _, g := range all {
		name := "load generator"
		if len(all) > 1 {
			name += " " + g.Host
		}
		if g.Samples > 0 && g.CPURatio >= generatorCPU {
			why = append(why, fmt.Sprintf("%s CPU at %d%%", name, percent(g.CPURatio)))
		} else if g.Samples > 0 && nicRatio(g) >= generatorNIC {
			why = append(why, fmt.Sprintf("%s NIC at %d%% of its link", name, percent(nicRatio(g))))
		}
	}
	var lags []float64
	for _, s := range near {
		lags = append(lags, s.SchedLagP50Ms)
	}
	if lag := median(lags); lag >= generatorLagMs {
		late := "load generator"
		if len(all) > 1 {
			late = "the latest load generator"
		}
		why = append(why, fmt.Sprintf("%s sent %.0f ms late in the median", late, lag))
	}
	if anyHot(near) {
		return why
	}
	for _, s := range steps {
		if s.tooManyDropped() && s.InFlightMax < inFlightFull*float64(sc.MaxInFlight) {
			return append(why, fmt.Sprintf("load generator dropped %d of %d arrivals at %s req/s with at most %.0f of %d in flight and no host hot",
				s.Dropped, s.Arrivals, formatRate(s.OfferedRPS), s.InFlightMax, sc.MaxInFlight))
		}
	}
	return why
}

// environment says what about the machines makes the figures worthless.
func environment(near []Step) []string {
	var why, crowded []string
	foreign := 0.0
	for _, h := range hosts(near) {
		if h.StealRatio >= maxStealRatio {
			why = append(why, fmt.Sprintf("steal on %s at %d%%: the physical machine was busy with others", h.Host, percent(h.StealRatio)))
		}
		if h.ForeignCPURatio >= maxForeignRatio {
			crowded, foreign = append(crowded, h.Host), max(foreign, h.ForeignCPURatio)
		}
	}
	if len(crowded) > 0 {
		why = append(why, fmt.Sprintf("%d%% of the CPU under %s was used by what is not of the lab; let it end, or give the lab a machine of its own", percent(foreign), strings.Join(crowded, ", ")))
	}
	for _, s := range near {
		for _, h := range s.Hosts {
			if h.Samples > 0 && h.CPUs > 0 && s.Seconds > 0 && h.CPUSeconds > utilisationSlack*h.CPUs*s.Seconds {
				why = append(why, fmt.Sprintf("%s used %.2f CPU seconds in %.0f s with a cap of %g CPUs: impossible", h.Host, h.CPUSeconds, s.Seconds, h.CPUs))
			}
		}
		if off := LittlesResidual(s); off > littlesInvalid {
			why = append(why, littles(s, off))
		}
	}
	return why
}

// LittlesResidual is |N − X·R| ÷ N, N the mean in flight and R the mean latency.
// It is 0 where the law can't be checked: in a growing queue, with errors, or
// with few in flight, the two sides differ by right.
func LittlesResidual(s Step) float64 {
	if ok, _ := Sustained(s); !ok || s.Failed > 0 || s.InFlightMean < littlesMinimum {
		return 0
	}
	return math.Abs(s.InFlightMean-s.CompletedRPS()*s.MeanMs/1000) / s.InFlightMean
}

func littles(s Step, off float64) string {
	return fmt.Sprintf("at %s req/s %.1f in flight is not rate × latency (%d%% off, Little's law)", formatRate(s.OfferedRPS), s.InFlightMean, percent(off))
}

// Utilisation is ρ = X·S ÷ CPUs, the utilisation law: a rate and the CPU seconds
// that a request needs. Above 1 the figures are impossible together: most often
// the work of a request was not fixed and shrank under contention.
func Utilisation(rateRPS, cpuSecondsPerRequest, cpus float64) float64 {
	return rateRPS * cpuSecondsPerRequest / cpus
}

// suspicions are findings about the figures that do not make them worthless:
// Little's law, and a ceiling that the CPU seconds of the ramp's first, unhurried
// step do not allow (a request then does less work when it is contended). A node of a
// cluster is not asked: its control plane works without any request, and an autoscaler
// brings the pods that a node had at first to others.
func suspicions(v Verdict, steps, near []Step) []candidate {
	var found []candidate
	for _, s := range near {
		if off := LittlesResidual(s); off > littlesSuspect {
			found = append(found, candidate{severityNote, off, Finding{"littles-law", littles(s, off),
				map[string]float64{"residualRatio": off, "inFlightMean": s.InFlightMean, "meanMs": s.MeanMs, "completedRps": s.CompletedRPS()}}})
		}
	}
	if len(steps) == 0 || v.CeilingRPS == 0 {
		return found
	}
	low, ofNodes := cpuPerRequest(steps[:1]), nodes(steps)
	for _, h := range steps[0].Hosts {
		_, isNode := nodeOn(h.Host, ofNodes)
		if h.Samples == 0 || h.CPUs <= 0 || isNode {
			continue
		}
		if rho := Utilisation(v.CeilingRPS, low[h.Host], h.CPUs); rho > utilisationSlack {
			found = append(found, candidate{severityNote, rho, Finding{"utilisation-law",
				fmt.Sprintf("%s needed %.2f ms of CPU a request at %s req/s, which its %g CPUs can't give at the ceiling: the work is not fixed", h.Host, 1000*low[h.Host], formatRate(steps[0].OfferedRPS), h.CPUs),
				map[string]float64{"utilisation": rho, "cpuSecondsPerRequest": low[h.Host], "cpus": h.CPUs}}})
		}
	}
	return found
}
