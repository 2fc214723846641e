package analysis

import (
	"fmt"
	"slices"
	"sort"
	"strings"
)

const (
	hotCPU         = 0.90 // with pressure to confirm it
	hotCPUNoPSI    = 0.93
	hotPSI         = 0.20
	hotDisk        = 0.90
	hotNIC         = 0.85
	hotMemory      = 0.95
	roleShare      = 2.0 / 3 // of a role's hosts hot: the role is
	imbalance      = 0.30    // above the role's median: one node alone
	flatInFlight   = 0.05
	limiterRatio   = 0.01
	severityEvent  = 1
	severityBusy   = 3
	severityMemory = 4
)

// candidate is a finding with its place in the order of the rules.
type candidate struct {
	severity int
	score    float64
	Finding
}

// wall names what saturated near the ceiling: the first rule that holds. The
// other findings follow with their figures.
func wall(r Result, v Verdict, near []Step) (string, []Finding) {
	found := append(events(near), busy(near)...)
	sort.SliceStable(found, func(i, j int) bool {
		if found[i].severity != found[j].severity {
			return found[i].severity < found[j].severity
		}
		return found[i].score > found[j].score
	})
	var findings []Finding
	for _, c := range found {
		findings = append(findings, c.Finding)
	}
	switch v.Status {
	case StatusFound, StatusRetrograde:
		if len(findings) > 0 {
			return findings[0].Sentence, findings[1:]
		}
		return "unattributed: no watched resource is at its limit" + hints(near), nil
	case StatusCapReached:
		if len(found) > 0 && found[0].severity == severityEvent {
			return findings[0].Sentence, findings[1:]
		}
		return fmt.Sprintf("nothing (hit the scenario's %s cap)", formatRate(r.Scenario.CapRPS)), findings
	default:
		return "none: " + strings.Join(v.Invalid, "; "), findings
	}
}

// events are what ends capacity whatever the utilisation.
func events(near []Step) []candidate {
	var found []candidate
	for _, h := range hosts(near) {
		if h.OOMKills > 0 {
			found = append(found, candidate{severityEvent, 2, Finding{"oom", fmt.Sprintf("%s out of memory (%d killed)", h.Host, h.OOMKills), map[string]float64{"oomKills": float64(h.OOMKills)}}})
		}
		if h.ListenOverflows > 0 {
			found = append(found, candidate{severityEvent, 1, Finding{"listen-overflow", fmt.Sprintf("accept queue overflow on %s", h.Host), map[string]float64{"listenOverflows": float64(h.ListenOverflows)}}})
		}
	}
	return found
}

// busy are the resources at their limit.
func busy(near []Step) []candidate {
	byRole := map[string][]HostUse{}
	for _, h := range hosts(near) {
		byRole[strings.Join(h.Roles, "+")] = append(byRole[strings.Join(h.Roles, "+")], h)
	}
	var found []candidate
	for _, role := range sortedKeys(byRole) {
		group := byRole[role]
		if c, ok := busyCPU(role, group); ok {
			found = append(found, c)
		}
		for _, h := range group {
			figures := map[string]float64{"diskRatio": h.DiskRatio, "netMbps": h.NetMbps, "linkMbps": h.LinkMbps, "memoryRatio": h.MemoryRatio}
			if h.DiskRatio >= hotDisk && h.PSIIORatio >= hotPSI {
				found = append(found, candidate{severityBusy, h.DiskRatio, Finding{"disk", fmt.Sprintf("%s disk at %d%%", h.Host, percent(h.DiskRatio)), figures}})
			}
			if n := nicRatio(h); n >= hotNIC {
				found = append(found, candidate{severityBusy, n, Finding{"nic", fmt.Sprintf("%s NIC at %d%% of its link", h.Host, percent(n)), figures}})
			}
			if h.MemoryRatio >= hotMemory {
				found = append(found, candidate{severityMemory, h.MemoryRatio, Finding{"memory", fmt.Sprintf("%s memory at %d%%", h.Host, percent(h.MemoryRatio)), figures}})
			}
		}
	}
	return found
}

// busyCPU judges the CPUs of one role's hosts together.
func busyCPU(role string, group []HostUse) (candidate, bool) {
	var hot []HostUse
	ratios := make([]float64, 0, len(group))
	for _, h := range group {
		ratios = append(ratios, h.CPURatio)
		if cpuHot(h) {
			hot = append(hot, h)
		}
	}
	if len(hot) == 0 {
		return candidate{}, false
	}
	top := slices.MaxFunc(hot, func(a, b HostUse) int { return percent(a.CPURatio) - percent(b.CPURatio) })
	figures := map[string]float64{"cpuRatio": top.CPURatio, "cpus": top.CPUs, "psiCpuRatio": top.PSICPURatio, "throttledRatio": top.ThrottledRatio}
	finding := func(format string, args ...any) (candidate, bool) {
		return candidate{severityBusy, top.CPURatio, Finding{"cpu", fmt.Sprintf(format, args...), figures}}, true
	}
	middle := median(ratios)
	switch {
	case len(group) == 1:
		return finding("%s CPU at %d%%", top.Host, percent(top.CPURatio))
	case float64(len(hot)) >= roleShare*float64(len(group)):
		return finding("%s hosts' CPU at %d%%", role, percent(middle))
	case top.CPURatio-middle >= imbalance:
		return finding("one host (%s) at %d%% CPU while others idled (median %d%%)", top.Host, percent(top.CPURatio), percent(middle))
	default:
		return finding("%s CPU at %d%%", top.Host, percent(top.CPURatio))
	}
}

func cpuHot(h HostUse) bool {
	if h.Samples == 0 {
		return false // no data is not idle, and not hot
	}
	return h.CPURatio >= hotCPUNoPSI || h.CPURatio >= hotCPU && h.PSICPURatio >= hotPSI
}

// hints say what was seen when nothing is at its limit.
func hints(near []Step) string {
	var out []string
	var inFlight []float64
	bad, arrivals := map[string]int64{}, int64(0)
	for _, s := range near {
		inFlight = append(inFlight, s.InFlightMean)
		arrivals += s.Arrivals
		for kind, n := range s.Errors {
			bad[kind] += n
		}
	}
	if len(inFlight) > 1 {
		low, high := slices.Min(inFlight), slices.Max(inFlight)
		if high > 1 && high-low <= flatInFlight*high {
			out = append(out, fmt.Sprintf("in flight is flat at %.0f: a pool of that size?", high))
		}
	}
	for _, kind := range []string{"status-429", "status-503"} {
		if arrivals > 0 && float64(bad[kind]) >= limiterRatio*float64(arrivals) {
			out = append(out, fmt.Sprintf("%d responses of %s: a limiter?", bad[kind], kind))
		}
	}
	if len(out) == 0 {
		return ""
	}
	return " (" + strings.Join(out, "; ") + ")"
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
		CPURatio:       of(func(u HostUse) float64 { return u.CPURatio }),
		StealRatio:     of(func(u HostUse) float64 { return u.StealRatio }),
		ThrottledRatio: of(func(u HostUse) float64 { return u.ThrottledRatio }),
		PSICPURatio:    of(func(u HostUse) float64 { return u.PSICPURatio }),
		MemoryRatio:    of(func(u HostUse) float64 { return u.MemoryRatio }),
		DiskRatio:      of(func(u HostUse) float64 { return u.DiskRatio }),
		PSIIORatio:     of(func(u HostUse) float64 { return u.PSIIORatio }),
		NetMbps:        of(func(u HostUse) float64 { return u.NetMbps }),
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
