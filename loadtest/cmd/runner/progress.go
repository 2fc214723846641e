package main

import (
	"fmt"
	"math"

	"lab/loadtest/analysis"
)

// outlook is the run's first line: what it will offer, and how long that takes at
// most. A search is done when it knows enough, most often after half of that.
func outlook(sc analysis.Scenario) string {
	text := fmt.Sprintf("%s of up to %g req/s: at most %s min of load", sc.Kind, analysis.TopRPS(sc), minutes(analysis.MaxSeconds(sc)))
	if sc.Repeats > 1 {
		text += fmt.Sprintf(" in %d runs", sc.Repeats)
	}
	if sc.Kind == analysis.KindSearch {
		text += ", and less as soon as the ceiling is known"
	}
	return text
}

// timing says how much of its load a run of the runner has behind it. The zero value
// but for sc is at the beginning.
type timing struct {
	sc    analysis.Scenario
	run   int     // of the repeats, from 0
	ended float64 // seconds of load when the last of the repeats ended
}

// next is told each probe and the load before it; it says whether a repeat begins.
func (t *timing) next(p analysis.Probe, loadSeconds float64) bool {
	if p.Run <= t.run {
		return false
	}
	t.run, t.ended = p.Run, loadSeconds
	return true
}

// expected are all seconds of load: at most, and from the second repeat on as the
// ones before took.
func (t *timing) expected() (seconds float64, word string) {
	most := analysis.MaxSeconds(t.sc)
	if t.run == 0 {
		return most, "at most "
	}
	return min(most, t.ended/float64(t.run)*float64(max(t.sc.Repeats, 1))), "about "
}

// share is how much of the load is done: "6:10 of about 16:30 min".
func (t *timing) share(loadSeconds float64) string {
	all, word := t.expected()
	return fmt.Sprintf("%s of %s%s min", minutes(loadSeconds), word, minutes(max(all, loadSeconds)))
}

// runs is the line between two repeats.
func (t *timing) runs(r analysis.Result) string {
	all, _ := t.expected()
	return fmt.Sprintf("run %d of %d: ceiling %s so far, about %s min of load to go", t.run, t.sc.Repeats, analysis.Analyze(r).Ceiling, minutes(all-t.ended))
}

// minutes is a time as M:SS.
func minutes(seconds float64) string {
	whole := int(math.Round(seconds))
	return fmt.Sprintf("%d:%02d", whole/60, whole%60)
}

// summary is the run's last line: its answer, and what it took.
func summary(r analysis.Result) string {
	v := analysis.Analyze(r)
	text := fmt.Sprintf("%s: ceiling %s, %s; %.0f s of load in %d steps", v.Status, v.Ceiling, v.Wall, r.LoadSeconds, len(r.Steps))
	if v.CeilingRPS > 0 && r.Scenario.Kind == analysis.KindSearch {
		fixed := analysis.FixedRampSeconds(r.Scenario.FloorRPS, v.CeilingRPS)
		text += fmt.Sprintf(" (a ramp of 10 req/s more each minute: %.0f s)", fixed)
	}
	return text
}

// progress is the line that a user reads while the load runs.
func progress(s analysis.Step) string {
	hottest, hosts := analysis.HostUse{}, 0
	for _, h := range s.Hosts {
		if h.Samples > 0 && (hosts == 0 || h.CPURatio > hottest.CPURatio) {
			hottest = h
		}
		hosts += min(h.Samples, 1)
	}
	text := fmt.Sprintf("step %s %g req/s: completed %.1f, ", s.Phase, s.OfferedRPS, s.CompletedRPS())
	if s.Run > 0 {
		text = fmt.Sprintf("run %d ", s.Run+1) + text
	}
	if s.Completed > 0 {
		text += fmt.Sprintf("p95 %.1f ms, ", s.P95Ms)
	}
	if hosts > 0 {
		text += fmt.Sprintf("hottest %s CPU %.0f%%", hottest.Host, 100*hottest.CPURatio)
	} else {
		text += "no host sampled"
	}
	text += autoscaled(s)
	if ok, reason := analysis.Sustained(s); !ok {
		text += " (not sustained: " + reason + ")"
	}
	return text
}

// autoscaled is how many pods there are, where an autoscaler decides it.
func autoscaled(s analysis.Step) string {
	text := ""
	if s.Kubernetes != nil {
		for _, a := range s.Kubernetes.Autoscalers {
			text += fmt.Sprintf(", %s %d of %d pods", a.Workload, a.LastReplicas, a.MaxReplicas)
		}
	}
	return text
}
