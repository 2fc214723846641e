package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
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
	severityEvent = 1 // hard events: the wall whatever the utilisation
	severityBusy  = 3 // a resource at its limit: the wall of a ceiling
	severityNote  = 5 // never the wall
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
	found := slices.Concat(events(near), busy(near), suspicions(v, steps, near))
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
	return "none: " + strings.Join(v.Invalid, "; "), findings
}

// events are what ends capacity whatever the utilisation. An accept queue that
// overflows on a host without CPU left is a symptom, and only noted.
func events(near []Step) []candidate {
	var found []candidate
	for _, h := range hosts(near) {
		if h.OOMKills > 0 {
			found = append(found, candidate{severityEvent, 2, Finding{"oom",
				fmt.Sprintf("%s out of memory (%d killed)", h.Host, h.OOMKills), map[string]float64{"oomKills": float64(h.OOMKills), "memoryRatio": h.MemoryRatio}}})
		}
		if h.ListenOverflows > 0 {
			severity := severityEvent
			if cpuHot(h) {
				severity = severityNote
			}
			found = append(found, candidate{severity, 1, Finding{"listen-overflow",
				fmt.Sprintf("accept queue overflow on %s", h.Host), map[string]float64{"listenOverflows": float64(h.ListenOverflows)}}})
		}
	}
	return found
}

// busy are the resources at their limit. Memory alone is never the wall: a cache
// fills what it may.
func busy(near []Step) []candidate {
	all := hosts(near)
	found := busyCPU(all)
	for _, h := range all {
		if h.DiskRatio >= hotDisk && h.PSIIORatio >= hotPSI {
			found = append(found, candidate{severityBusy, h.DiskRatio, Finding{"disk",
				fmt.Sprintf("%s disk at %d%%", h.Host, percent(h.DiskRatio)), map[string]float64{"diskRatio": h.DiskRatio, "psiIoRatio": h.PSIIORatio}}})
		}
		if n := nicRatio(h); n >= hotNIC {
			found = append(found, candidate{severityBusy, n, Finding{"nic",
				fmt.Sprintf("%s NIC at %d%% of its link", h.Host, percent(n)), map[string]float64{"netMbps": h.NetMbps, "linkMbps": h.LinkMbps}}})
		}
		if h.MemoryRatio >= hotMemory {
			found = append(found, candidate{severityNote, h.MemoryRatio, Finding{"memory",
				fmt.Sprintf("%s memory at %d%%", h.Host, percent(h.MemoryRatio)), map[string]float64{"memoryRatio": h.MemoryRatio}}})
		}
	}
	return found
}

// busyCPU judges the CPUs: the hosts of one role together when most of them are
// hot, every other hot host alone.
func busyCPU(all []HostUse) []candidate {
	var found []candidate
	covered := map[string]bool{}
	roles := byRole(all)
	for _, role := range sortedKeys(roles) {
		group := roles[role]
		hot := slices.DeleteFunc(slices.Clone(group), func(h HostUse) bool { return !cpuHot(h) })
		if len(group) < 2 || float64(len(hot)) < roleShare*float64(len(group)) || allCovered(hot, covered) {
			continue
		}
		mean := 0.0
		for _, h := range hot {
			covered[h.Host] = true
			mean += h.CPURatio / float64(len(hot))
		}
		found = append(found, candidate{severityBusy, mean, Finding{"cpu", fmt.Sprintf("%s nodes at %d%%", role, percent(mean)), cpuFigures(hot[0], mean)}})
	}
	for _, h := range all {
		if !cpuHot(h) || covered[h.Host] {
			continue
		}
		sentence := fmt.Sprintf("%s CPU at %d%%", h.Host, percent(h.CPURatio))
		if others, ok := peers(h, roles); ok && h.CPURatio-others >= imbalance {
			sentence = fmt.Sprintf("one node (%s) saturated at %d%% while others idled (median %d%%)", h.Host, percent(h.CPURatio), percent(others))
		}
		found = append(found, candidate{severityBusy, h.CPURatio, Finding{"cpu", sentence, cpuFigures(h, h.CPURatio)}})
	}
	return found
}

func cpuFigures(h HostUse, ratio float64) map[string]float64 {
	return map[string]float64{"cpuRatio": ratio, "cpus": h.CPUs, "psiCpuRatio": h.PSICPURatio, "throttledRatio": h.ThrottledRatio}
}

func byRole(all []HostUse) map[string][]HostUse {
	roles := map[string][]HostUse{}
	for _, h := range all {
		for _, role := range h.Roles {
			roles[role] = append(roles[role], h)
		}
	}
	return roles
}

func allCovered(hot []HostUse, covered map[string]bool) bool {
	return !slices.ContainsFunc(hot, func(h HostUse) bool { return !covered[h.Host] })
}

// peers is the median CPU of the other hosts of the host's largest role.
func peers(h HostUse, roles map[string][]HostUse) (float64, bool) {
	var largest []HostUse
	for _, role := range h.Roles {
		if len(roles[role]) > len(largest) {
			largest = roles[role]
		}
	}
	var ratios []float64
	for _, other := range largest {
		if other.Host != h.Host && other.Samples > 0 {
			ratios = append(ratios, other.CPURatio)
		}
	}
	return median(ratios), len(ratios) > 0
}

// cpuHot says whether a host's CPU is at its limit. No data is not idle, and not hot.
func cpuHot(h HostUse) bool {
	confirmed := h.PSICPURatio >= hotPSI || h.ThrottledRatio >= hotThrottled
	return h.Samples > 0 && (h.CPURatio >= hotCPUAlone || h.CPURatio >= hotCPU && confirmed)
}

func anyHot(near []Step) bool {
	return slices.ContainsFunc(busy(near), func(c candidate) bool { return c.severity == severityBusy })
}

// hints say what was seen when nothing is at its limit.
func hints(sc Scenario, steps, near []Step) string {
	var out []string
	if n, flat := flatAt(sc, steps); flat {
		out = append(out, fmt.Sprintf("in flight is flat at %.0f: a pool of that size?", n))
	}
	bad, arrivals := map[string]int64{}, int64(0)
	for _, s := range near {
		arrivals += s.Arrivals
		for kind, n := range s.Errors {
			bad[kind] += n
		}
	}
	for _, kind := range []string{"status-429", "status-503"} {
		if arrivals > 0 && float64(bad[kind]) >= limiterRatio*float64(arrivals) {
			out = append(out, fmt.Sprintf("%d responses of %s: a limiter?", bad[kind], kind))
		}
	}
	for _, h := range hosts(near) {
		if h.Samples == 0 {
			out = append(out, "no samples of "+h.Host)
		}
	}
	if len(out) == 0 {
		return ""
	}
	return " (" + strings.Join(out, "; ") + ")"
}

// flatAt says whether the number in flight stayed the same in the overloaded
// steps, below the generator's own cap.
func flatAt(sc Scenario, steps []Step) (float64, bool) {
	var inFlight []float64
	for _, s := range steps[max(firstFailure(steps), 0):] {
		inFlight = append(inFlight, s.InFlightMean)
	}
	if len(inFlight) < 2 {
		return 0, false
	}
	low, high := slices.Min(inFlight), slices.Max(inFlight)
	return median(inFlight), high > 1 && high < inFlightFull*float64(sc.MaxInFlight) && high-low <= flatInFlight*high
}

// hosts are the medians of every host over the steps; events are summed. The
// generator is left out: it is judged apart.
func hosts(near []Step) []HostUse {
	all := map[string][]HostUse{}
	for _, s := range near {
		for _, h := range s.Hosts {
			if h.Host != s.Generator.Host {
				all[h.Host] = append(all[h.Host], h)
			}
		}
	}
	var out []HostUse
	for _, name := range sortedKeys(all) {
		out = append(out, medianUse(all[name]))
	}
	return out
}

func generator(near []Step) HostUse {
	var all []HostUse
	for _, s := range near {
		all = append(all, s.Generator)
	}
	if len(all) == 0 {
		return HostUse{}
	}
	return medianUse(all)
}

func medianUse(uses []HostUse) HostUse {
	of := func(get func(HostUse) float64) float64 {
		var values []float64
		for _, u := range uses {
			if u.Samples > 0 {
				values = append(values, get(u))
			}
		}
		return median(values)
	}
	m := HostUse{
		Host: uses[0].Host, Roles: uses[0].Roles, CPUs: uses[0].CPUs, LinkMbps: uses[0].LinkMbps,
		CPURatio:        of(func(u HostUse) float64 { return u.CPURatio }),
		StealRatio:      of(func(u HostUse) float64 { return u.StealRatio }),
		ForeignCPURatio: of(func(u HostUse) float64 { return u.ForeignCPURatio }),
		ConntrackRatio:  of(func(u HostUse) float64 { return u.ConntrackRatio }),
		ThrottledRatio:  of(func(u HostUse) float64 { return u.ThrottledRatio }),
		PSICPURatio:     of(func(u HostUse) float64 { return u.PSICPURatio }),
		MemoryRatio:     of(func(u HostUse) float64 { return u.MemoryRatio }),
		DiskRatio:       of(func(u HostUse) float64 { return u.DiskRatio }),
		PSIIORatio:      of(func(u HostUse) float64 { return u.PSIIORatio }),
		NetMbps:         of(func(u HostUse) float64 { return u.NetMbps }),
	}
	for _, u := range uses {
		m.Samples += u.Samples
		m.ListenOverflows += u.ListenOverflows
		m.OOMKills += u.OOMKills
	}
	return m
}

func nicRatio(h HostUse) float64 {
	if h.LinkMbps <= 0 {
		return 0
	}
	return h.NetMbps / h.LinkMbps
}

func percent(ratio float64) int { return int(ratio*100 + 0.5) }

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
