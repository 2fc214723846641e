package sample

import "lab/loadtest/analysis"

// Use is what a host used between two readings, of what it may use.
func Use(host string, roles []string, cpus, linkMbps float64, a, b Counters) analysis.HostUse {
	u := analysis.HostUse{
		Host: host, Roles: roles, CPUs: cpus, LinkMbps: linkMbps,
		PSICPURatio: -1, PSIIORatio: -1, DiskRatio: -1,
	}
	seconds := float64(b.UnixNano-a.UnixNano) / 1e9
	if seconds <= 0 || a.Kind != b.Kind {
		return u
	}
	u.CPUSeconds = b.CPUSeconds - a.CPUSeconds
	if cpus > 0 {
		u.CPURatio = u.CPUSeconds / seconds / cpus
	}
	if machine := b.MachineSeconds - a.MachineSeconds; machine > 0 {
		u.StealRatio = (b.StealSeconds - a.StealSeconds) / machine
	}
	if periods := b.Periods - a.Periods; periods > 0 {
		u.ThrottledRatio = float64(b.Throttled-a.Throttled) / float64(periods)
	}
	if a.PSICPUSeconds >= 0 && b.PSICPUSeconds >= 0 {
		u.PSICPURatio = (b.PSICPUSeconds - a.PSICPUSeconds) / seconds
	}
	if a.PSIIOSeconds >= 0 && b.PSIIOSeconds >= 0 {
		u.PSIIORatio = (b.PSIIOSeconds - a.PSIIOSeconds) / seconds
	}
	if a.DiskBusySeconds >= 0 && b.DiskBusySeconds >= 0 {
		u.DiskRatio = (b.DiskBusySeconds - a.DiskBusySeconds) / seconds
	}
	if b.MemoryLimit > 0 {
		u.MemoryRatio = float64(b.MemoryBytes) / float64(b.MemoryLimit)
	}
	u.NetMbps = 8 * float64(max(b.RxBytes-a.RxBytes, b.TxBytes-a.TxBytes)) / seconds / 1e6
	u.ListenOverflows = b.ListenOverflows - a.ListenOverflows
	u.OOMKills = b.OOMKills - a.OOMKills
	return u
}
