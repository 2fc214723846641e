// Package sample reads what a host uses: the cumulative counters of its own
// cgroup, when that has a CPU cap, or of the whole machine.
package sample

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Counters are what a host has used since it started, and what it uses now.
type Counters struct {
	UnixNano        int64   `json:"unixNano"`
	Kind            string  `json:"kind"`           // "cgroup" or "proc"
	CPUSeconds      float64 `json:"cpuSeconds"`     // user + system
	StealSeconds    float64 `json:"stealSeconds"`   // of the physical machine
	MachineSeconds  float64 `json:"machineSeconds"` // all modes of the physical machine
	Periods         int64   `json:"periods"`        // of the CPU cap
	Throttled       int64   `json:"throttled"`      // of them
	PSICPUSeconds   float64 `json:"psiCpuSeconds"`  // some; −1 when unknown
	PSIIOSeconds    float64 `json:"psiIoSeconds"`
	MemoryBytes     int64   `json:"memoryBytes"` // without reclaimable cache
	MemoryLimit     int64   `json:"memoryLimit"`
	DiskBusySeconds float64 `json:"diskBusySeconds"` // of the busiest disk; −1 when unknown
	RxBytes         int64   `json:"rxBytes"`
	TxBytes         int64   `json:"txBytes"`
	ListenOverflows int64   `json:"listenOverflows"`
	OOMKills        int64   `json:"oomKills"`
	SelfCPUSeconds  float64 `json:"selfCpuSeconds"` // of the sampler
}

// Reader reads the files below a root: "/" but in tests.
type Reader struct{ Root string }

func (r Reader) read(path string) string {
	raw, err := os.ReadFile(filepath.Join(r.Root, path))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}

// Read reads all counters. A file that a host lacks leaves its counter unknown;
// without any CPU counter there is an error.
func (r Reader) Read() (Counters, error) {
	c := Counters{UnixNano: time.Now().UnixNano(), Kind: "proc", PSICPUSeconds: -1, PSIIOSeconds: -1, DiskBusySeconds: -1}
	cpu, steal, all, err := parseStat(r.read("proc/stat"))
	if err != nil {
		return c, err
	}
	c.CPUSeconds, c.StealSeconds, c.MachineSeconds = cpu, steal, all
	c.MemoryBytes, c.MemoryLimit = parseMeminfo(r.read("proc/meminfo"))
	c.RxBytes, c.TxBytes = parseNetDev(r.read("proc/net/dev"))
	c.ListenOverflows = parseNetstat(r.read("proc/net/netstat"), "ListenOverflows")
	c.OOMKills = field(r.read("proc/vmstat"), "oom_kill")
	switch {
	case limited(r.read("sys/fs/cgroup/cpu/cpu.cfs_quota_us")):
		r.readV1(&c)
	case r.read("sys/fs/cgroup/cpu.max") != "" && !strings.HasPrefix(r.read("sys/fs/cgroup/cpu.max"), "max"):
		r.readV2(&c)
	default:
		c.PSICPUSeconds = parsePressure(r.read("proc/pressure/cpu"))
		c.PSIIOSeconds = parsePressure(r.read("proc/pressure/io"))
		c.DiskBusySeconds = parseDiskstats(r.read("proc/diskstats"))
	}
	var self syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &self); err == nil {
		c.SelfCPUSeconds = float64(self.Utime.Nano()+self.Stime.Nano()) / 1e9
	}
	return c, nil
}

// limited says whether a v1 quota is a cap: the root group has none, or −1.
func limited(quota string) bool {
	n, err := strconv.ParseInt(quota, 10, 64)
	return err == nil && n > 0
}

func (r Reader) readV1(c *Counters) {
	c.Kind = "cgroup"
	nanos, _ := strconv.ParseInt(r.read("sys/fs/cgroup/cpuacct/cpuacct.usage"), 10, 64)
	c.CPUSeconds = float64(nanos) / 1e9
	stat := r.read("sys/fs/cgroup/cpu/cpu.stat")
	c.Periods, c.Throttled = field(stat, "nr_periods"), field(stat, "nr_throttled")
	usage, _ := strconv.ParseInt(r.read("sys/fs/cgroup/memory/memory.usage_in_bytes"), 10, 64)
	c.MemoryBytes = usage - field(r.read("sys/fs/cgroup/memory/memory.stat"), "total_inactive_file")
	c.MemoryLimit, _ = strconv.ParseInt(r.read("sys/fs/cgroup/memory/memory.limit_in_bytes"), 10, 64)
	c.OOMKills = field(r.read("sys/fs/cgroup/memory/memory.oom_control"), "oom_kill")
	c.PSICPUSeconds = parsePressure(r.read("sys/fs/cgroup/unified/cpu.pressure"))
	c.PSIIOSeconds = parsePressure(r.read("sys/fs/cgroup/unified/io.pressure"))
}

func (r Reader) readV2(c *Counters) {
	c.Kind = "cgroup"
	stat := r.read("sys/fs/cgroup/cpu.stat")
	c.CPUSeconds = float64(field(stat, "usage_usec")) / 1e6
	c.Periods, c.Throttled = field(stat, "nr_periods"), field(stat, "nr_throttled")
	usage, _ := strconv.ParseInt(r.read("sys/fs/cgroup/memory.current"), 10, 64)
	c.MemoryBytes = usage - field(r.read("sys/fs/cgroup/memory.stat"), "inactive_file")
	c.MemoryLimit, _ = strconv.ParseInt(r.read("sys/fs/cgroup/memory.max"), 10, 64)
	c.OOMKills = field(r.read("sys/fs/cgroup/memory.events"), "oom_kill")
	c.PSICPUSeconds = parsePressure(r.read("sys/fs/cgroup/cpu.pressure"))
	c.PSIIOSeconds = parsePressure(r.read("sys/fs/cgroup/io.pressure"))
}

// userHZ is the unit of /proc/stat: 100 a second on every Linux we run on (proc(5)).
const userHZ = 100

// parseStat reads the first line of /proc/stat. Guest time is part of user time.
func parseStat(text string) (cpu, steal, all float64, err error) {
	line, _, _ := strings.Cut(text, "\n")
	f := strings.Fields(line)
	if len(f) < 9 || f[0] != "cpu" {
		return 0, 0, 0, fmt.Errorf("/proc/stat: no cpu line in %q", line)
	}
	var v [8]float64
	for i := range v {
		n, err := strconv.ParseFloat(f[i+1], 64)
		if err != nil {
			return 0, 0, 0, fmt.Errorf("/proc/stat: %w", err)
		}
		v[i] = n / userHZ
		all += v[i]
	}
	user, nice, system, irq, softirq := v[0], v[1], v[2], v[5], v[6]
	return user + nice + system + irq + softirq, v[7], all, nil
}

func parseMeminfo(text string) (used, total int64) {
	total = field(text, "MemTotal:") << 10
	return total - field(text, "MemAvailable:")<<10, total
}

// parseNetDev sums the bytes of all interfaces but the loopback.
func parseNetDev(text string) (rx, tx int64) {
	for line := range strings.Lines(text) {
		name, rest, ok := strings.Cut(line, ":")
		f := strings.Fields(rest)
		if !ok || strings.TrimSpace(name) == "lo" || len(f) < 9 {
			continue
		}
		r, _ := strconv.ParseInt(f[0], 10, 64)
		t, _ := strconv.ParseInt(f[8], 10, 64)
		rx, tx = rx+r, tx+t
	}
	return rx, tx
}

// parseNetstat reads a counter of /proc/net/netstat: a line of names, then one of values.
func parseNetstat(text, counter string) int64 {
	lines := strings.Split(text, "\n")
	for i := 0; i+1 < len(lines); i += 2 {
		names, values := strings.Fields(lines[i]), strings.Fields(lines[i+1])
		for j := range names {
			if names[j] == counter && j < len(values) {
				n, _ := strconv.ParseInt(values[j], 10, 64)
				return n
			}
		}
	}
	return 0
}

// parsePressure reads the total of a PSI file's "some" line, in seconds; −1 when
// there is none.
func parsePressure(text string) float64 {
	line, _, _ := strings.Cut(text, "\n")
	_, total, ok := strings.Cut(line, "total=")
	if !ok || !strings.HasPrefix(line, "some") {
		return -1
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(total), 64)
	if err != nil {
		return -1
	}
	return n / 1e6
}

// parseDiskstats is the busy time of the busiest whole disk, in seconds.
func parseDiskstats(text string) float64 {
	busiest := -1.0
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 13 || strings.HasPrefix(f[2], "loop") || strings.HasPrefix(f[2], "ram") {
			continue
		}
		if n, err := strconv.ParseFloat(f[12], 64); err == nil {
			busiest = max(busiest, n/1000)
		}
	}
	return busiest
}

// field is the number behind a name in a file of "name value" lines.
func field(text, name string) int64 {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) >= 2 && f[0] == name {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n
		}
	}
	return 0
}
