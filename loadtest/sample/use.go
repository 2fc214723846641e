package sample

import (
	"lab/loadtest/analysis"
	"lab/loadtest/plan"
)

// Unknown is the use of a host without data.
func Unknown(h plan.Host) analysis.HostUse {
	return analysis.HostUse{
		Host: h.Name, Roles: h.Roles, CPUs: h.CPUs, LinkMbps: h.LinkMbps,
		PSICPURatio: -1, PSIIORatio: -1, DiskRatio: -1,
	}
}

// Use is what a host used between two readings, of what it may use. It says
// false when they do not belong together: out of order, or the host or its
// sampler's view of it restarted between them.
func Use(h plan.Host, a, b Counters) (analysis.HostUse, bool) {
	u := Unknown(h)
	seconds := Elapsed(a, b)
	if seconds <= 0 || a.Kind != b.Kind || b.CPUSeconds < a.CPUSeconds {
		return u, false
	}
	u.CPUSeconds = b.CPUSeconds - a.CPUSeconds
	if h.CPUs > 0 {
		u.CPURatio = u.CPUSeconds / seconds / h.CPUs
	}
	u.StealRatio = ratio(b.StealSeconds-a.StealSeconds, b.MachineSeconds-a.MachineSeconds)
	u.ThrottledRatio = ratio(float64(b.Throttled-a.Throttled), float64(b.Periods-a.Periods))
	u.PSICPURatio = known(a.PSICPUSeconds, b.PSICPUSeconds, seconds)
	u.PSIIORatio = known(a.PSIIOSeconds, b.PSIIOSeconds, seconds)
	u.DiskRatio = known(a.DiskBusySeconds, b.DiskBusySeconds, seconds)
	limit := b.MemoryLimit
	if limit == 0 {
		limit = int64(h.MemoryMiB) << 20
	}
	u.MemoryRatio = ratio(float64(b.MemoryBytes), float64(limit))
	u.NetMbps = 8 * float64(max(0, b.RxBytes-a.RxBytes, b.TxBytes-a.TxBytes)) / seconds / 1e6
	u.ConntrackRatio = ratio(float64(b.Conntrack), float64(b.ConntrackLimit))
	u.ListenOverflows, u.OOMKills = Events(a, b)
	return u, true
}

// Events are what happened between two readings. A count that fell has lost
// what it counted: 0.
func Events(a, b Counters) (listenOverflows, oomKills int64) {
	return max(0, b.ListenOverflows-a.ListenOverflows), max(0, b.OOMKills-a.OOMKills)
}

// Elapsed is the time between two readings in seconds, by the clock that does
// not jump unless the sampler restarted between them.
func Elapsed(a, b Counters) float64 {
	if b.MonotonicNano > a.MonotonicNano {
		return float64(b.MonotonicNano-a.MonotonicNano) / 1e9
	}
	return float64(b.UnixNano-a.UnixNano) / 1e9
}

func ratio(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return max(0, part/whole)
}

// known is the share of the time between two totals; −1 when one is unknown.
func known(a, b, seconds float64) float64 {
	if a < 0 || b < a {
		return -1
	}
	return (b - a) / seconds
}
