package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

const (
	hotCPU        = 0.90 // with pressure or throttling to confirm it
	hotCPUAlone   = 0.93
	hotPSI        = 0.20
	hotThrottled  = 0.25
	hotDisk       = 0.90
	hotNIC        = 0.85
	hotMemory     = 0.95
	roleShare     = 2.0 / 3 // of a role's hosts hot: the role is
	imbalance     = 0.30    // above the others' median: one node alone
	flatInFlight  = 0.05
	limiterRatio  = 0.01
	dnsRatio      = 0.01 // of the arrivals
	fullConntrack = 0.90
	fullRatio     = 0.95 // of a limit of connections
	hotThread     = 0.95 // of a core
	podThrottled  = 0.25 // of their CPU periods
	overTarget    = 1.1  // of its target: within that an autoscaler does nothing (its default tolerance)
	mostReadings  = 0.5  // of them, or as a mean number of pods: less was for a moment only
	topStatement  = 0.50 // of all statements' time: worth a note
	busySessions  = 0.05 // that execute a statement: of fewer its share says nothing
	lowHitRatio   = 0.80 // of a cache: worth a note
	manyLookups   = 0.10 // a request: fewer are not the requests' own, but a queue's that is looked into
	severityEvent = 1    // hard events: the wall whatever the utilisation
	severityBusy  = 3    // a resource at its limit: the wall of a ceiling
	severityPods  = 4    // a limit of Kubernetes, where no resource is at its own
	severityLimit = 5    // another limit that was set: with throttled pods a full pool is a symptom
	severityNote  = 6    // never the wall
)

// candidate is a finding with its place in the order of the rules.
type candidate struct {
	severity int
	score    float64
	Finding
}

// wall names what saturated near the ceiling: the first rule that holds. The
// other findings follow with their figures.
func wall(r Result, v Verdict, m reading) (string, []Finding) {
	steps, near := m.steps, m.around
	found := slices.Concat(events(near), busy(near), podLimits(near), limits(near), suspicions(v, steps, near))
	if first := firstFailure(steps); first >= 0 && len(killed(near)) == 0 {
		found = append(found, killed(steps[first:])...)
	}
	slices.SortStableFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.severity, b.severity), cmp.Compare(b.score, a.score))
	})
	findings := make([]Finding, 0, len(found))
	for _, c := range found {
		findings = append(findings, c.Finding)
	}
	first := severityNote
	if len(found) > 0 {
		first = found[0].severity
	}
	switch v.Status {
	case StatusFound, StatusRetrograde:
		if first < severityNote {
			return findings[0].Sentence, findings[1:]
		}
		return "unattributed: no watched resource at its limit" + hints(r.Scenario, steps, near), findings
	case StatusCapReached:
		if first == severityEvent {
			return findings[0].Sentence, findings[1:]
		}
		return fmt.Sprintf("nothing (hit the scenario's %s cap)", formatRate(TopRPS(r.Scenario))), findings
	case StatusSLOMissed:
		if first < severityNote {
			return findings[0].Sentence, findings[1:]
		}
		return fmt.Sprintf("nothing saturated before the p95 left its target of %g ms", r.Scenario.SLOP95Ms), findings
	}
	why := slices.Clone(v.Invalid)
	for _, c := range events(r.Steps) {
		if c.severity == severityEvent { // what broke the run may lie far from where it ended
			why = append(why, c.Sentence)
		}
	}
	if v.Status == StatusTargetDown {
		why = append(why, unheard(r.Steps)...)
	}
	return "none: " + strings.Join(why, "; "), findings
}

// unheard names the hosts that were read, and then no more up to the end: one out of
// memory answers nobody.
func unheard(steps []Step) []string {
	if len(steps) == 0 {
		return nil
	}
	var out []string
	for _, h := range steps[len(steps)-1].Hosts {
		var before *HostUse
		since := 0.0 // req/s of the first step without readings
		for _, s := range slices.Backward(steps) {
			if i := slices.IndexFunc(s.Hosts, func(u HostUse) bool { return u.Host == h.Host }); i >= 0 && s.Hosts[i].Samples > 0 {
				before = &s.Hosts[i]
				break
			}
			since = s.OfferedRPS
		}
		if before != nil && since > 0 {
			out = append(out, fmt.Sprintf("%s gave no readings from %s req/s on (memory at %d%%, CPU at %d%% before)",
				h.Host, formatRate(since), percent(before.MemoryRatio), percent(before.CPURatio)))
		}
	}
	return out
}
