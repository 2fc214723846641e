package analysis

import (
	"cmp"
	"fmt"
	"slices"
)

// events are what ends capacity whatever the utilisation. An accept queue that
// overflows on a host without CPU left is a symptom, and only noted.
func events(near []Step) []candidate {
	var found []candidate
	for _, h := range hosts(near) {
		if conntrackFull(h) {
			found = append(found, candidate{severityEvent, 1, Finding{"conntrack",
				fmt.Sprintf("%s connection tracking table at %d%%", h.Host, percent(h.ConntrackRatio)), map[string]float64{"conntrackRatio": h.ConntrackRatio}}})
		}
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
	return slices.Concat(found, killedPods(near), failedLookups(near))
}

// failedLookups are the arrivals that found no address for the target's name.
func failedLookups(near []Step) []candidate {
	failed, arrivals := int64(0), int64(0)
	for _, s := range near {
		failed += s.Errors["dns"]
		arrivals += s.Arrivals
	}
	ratio := float64(failed) / float64(max(arrivals, 1))
	if ratio < dnsRatio {
		return nil
	}
	return []candidate{{severityEvent, 2, Finding{"dns", fmt.Sprintf("DNS: %d%% of the lookups of the target's name failed", percent(ratio)),
		map[string]float64{"failed": float64(failed), "failedRatio": ratio}}}}
}

// killed are the processes that ran out of memory anywhere in the steps: a kill
// past the ceiling is what keeps it there.
func killed(steps []Step) []candidate {
	var found []candidate
	for _, c := range events(steps) {
		if c.Rule == "oom" {
			found = append(found, c)
		}
	}
	return found
}

// busy are the resources at their limit. Memory alone is never the wall: a cache
// fills what it may.
func busy(near []Step) []candidate {
	all := hosts(near)
	found := busyCPU(all, nodes(near))
	for _, h := range all {
		if diskHot(h) {
			found = append(found, candidate{severityBusy, h.DiskRatio, Finding{"disk",
				fmt.Sprintf("%s disk at %d%%", h.Host, percent(h.DiskRatio)), map[string]float64{"diskRatio": h.DiskRatio, "psiIoRatio": h.PSIIORatio}}})
		}
		if n := nicRatio(h); nicHot(h) {
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
// hot, every other hot host alone. The role with the most hosts comes first: what
// it says of all of them need not be said of a part again.
func busyCPU(all []HostUse, nodes []NodeUse) []candidate {
	var found []candidate
	covered := map[string]bool{}
	roles := byRole(all)
	names := sortedKeys(roles)
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(len(roles[b]), len(roles[a])) })
	for _, role := range names {
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
		figures := cpuFigures(h, h.CPURatio)
		if node, ok := nodeOn(h.Host, nodes); ok {
			figures["pods"], figures["podsOfNodesMedian"] = node.Pods, medianOf(nodes, func(n NodeUse) float64 { return n.Pods })
		}
		found = append(found, candidate{severityBusy, h.CPURatio, Finding{"cpu", sentence, figures}})
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

func diskHot(h HostUse) bool { return h.DiskRatio >= hotDisk && h.PSIIORatio >= hotPSI }

func nicHot(h HostUse) bool { return nicRatio(h) >= hotNIC }

func conntrackFull(h HostUse) bool { return h.ConntrackRatio >= fullConntrack }

func anyHot(near []Step) bool {
	return slices.ContainsFunc(busy(near), func(c candidate) bool { return c.severity == severityBusy })
}
