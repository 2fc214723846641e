package analysis

import "sort"

// hosts are the medians of every host over the steps; events are summed. The
// generators are left out: they are judged apart. Nodes of a cluster have its role.
func hosts(near []Step) []HostUse {
	all := map[string][]HostUse{}
	for _, s := range near {
		for _, h := range s.Hosts {
			if !s.generates(h.Host) {
				all[h.Host] = append(all[h.Host], h)
			}
		}
	}
	var out []HostUse
	for _, name := range sortedKeys(all) {
		out = append(out, medianUse(all[name]))
	}
	return ofCluster(out, near)
}

// generators are the medians of every load generator's host over the steps.
func generators(near []Step) []HostUse {
	all := map[string][]HostUse{}
	for _, s := range near {
		for _, g := range s.generators() {
			all[g.Host] = append(all[g.Host], g)
		}
	}
	var out []HostUse
	for _, name := range sortedKeys(all) {
		out = append(out, medianUse(all[name]))
	}
	return out
}

// generators are the hosts that offered the step.
func (s Step) generators() []HostUse {
	if len(s.Generators) == 0 {
		return []HostUse{s.Generator}
	}
	return s.Generators
}

func (s Step) generates(host string) bool {
	for _, g := range s.generators() {
		if g.Host == host {
			return true
		}
	}
	return false
}

func (h HostUse) sampled() bool { return h.Samples > 0 }

func (u ServiceUse) sampled() bool { return u.Samples > 0 }

// sampledMedian is the median of a figure over the uses that have data.
func sampledMedian[T interface{ sampled() bool }](uses []T, get func(T) float64) float64 {
	var values []float64
	for _, u := range uses {
		if u.sampled() {
			values = append(values, get(u))
		}
	}
	return median(values)
}

func medianUse(uses []HostUse) HostUse {
	of := func(get func(HostUse) float64) float64 { return sampledMedian(uses, get) }
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

// services are the medians of every service over the steps; what was refused is
// summed, and the most connections are the most of all.
func services(near []Step) []ServiceUse {
	all := map[string][]ServiceUse{}
	for _, s := range near {
		for _, u := range s.Services {
			all[u.Host+"/"+u.Service] = append(all[u.Host+"/"+u.Service], u)
		}
	}
	var out []ServiceUse
	for _, name := range sortedKeys(all) {
		out = append(out, medianService(all[name]))
	}
	return out
}

func medianService(uses []ServiceUse) ServiceUse {
	of := func(get func(ServiceUse) float64) float64 { return sampledMedian(uses, get) }
	m := ServiceUse{
		Host: uses[0].Host, Service: uses[0].Service,
		Connections:     of(func(u ServiceUse) float64 { return u.Connections }),
		ConnectionLimit: of(func(u ServiceUse) float64 { return u.ConnectionLimit }),
		Waiting:         of(func(u ServiceUse) float64 { return u.Waiting }),
		ThreadRatio:     of(func(u ServiceUse) float64 { return u.ThreadRatio }),
		HitRatio:        of(func(u ServiceUse) float64 { return u.HitRatio }),
		LookupsRPS:      of(func(u ServiceUse) float64 { return u.LookupsRPS }),
		Waits:           map[string]float64{},
	}
	for _, u := range uses {
		m.Samples += u.Samples
		m.Refused += u.Refused
		m.ConnectionsMax = max(m.ConnectionsMax, u.ConnectionsMax)
		for kind := range u.Waits {
			m.Waits[kind] = of(func(u ServiceUse) float64 { return u.Waits[kind] })
		}
		if len(u.Statements) > 0 {
			m.Statements = u.Statements // the last: they are of the highest rate
		}
	}
	return m
}
