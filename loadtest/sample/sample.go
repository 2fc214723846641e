// Package sample reads what a host uses: the cumulative counters of its own
// cgroup, when it is a container of any sort, or of the whole machine.
package sample

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Counters are what a host has used since it started, and what it uses now.
type Counters struct {
	UnixNano        int64   `json:"unixNano"`        // the host's wall clock
	MonotonicNano   int64   `json:"monotonicNano"`   // since the sampler started
	Kind            string  `json:"kind"`            // "cgroup" or "proc"
	CPUSeconds      float64 `json:"cpuSeconds"`      // user + system
	StealSeconds    float64 `json:"stealSeconds"`    // of the physical machine
	MachineSeconds  float64 `json:"machineSeconds"`  // all modes of the physical machine
	CapCPUs         float64 `json:"capCpus"`         // the cap as the host sees it; 0 when there is none
	Periods         int64   `json:"periods"`         // of the CPU cap
	Throttled       int64   `json:"throttled"`       // of them
	PSICPUSeconds   float64 `json:"psiCpuSeconds"`   // some; −1 when unknown
	PSIIOSeconds    float64 `json:"psiIoSeconds"`    // some; −1 when unknown
	MemoryBytes     int64   `json:"memoryBytes"`     // without reclaimable cache
	MemoryLimit     int64   `json:"memoryLimit"`     // 0 when there is none
	DiskBusySeconds float64 `json:"diskBusySeconds"` // of the busiest disk; −1 when unknown
	RxBytes         int64   `json:"rxBytes"`
	TxBytes         int64   `json:"txBytes"`
	ListenOverflows int64   `json:"listenOverflows"`
	OOMKills        int64   `json:"oomKills"`
	SelfCPUSeconds  float64 `json:"selfCpuSeconds"` // of the sampler

	Boot           string            `json:"boot"`           // when the kernel booted, and its CPUs: hosts with the same are on one physical machine
	BusySeconds    float64           `json:"busySeconds"`    // of the physical machine, by all that runs on it
	Conntrack      int64             `json:"conntrack"`      // connections tracked
	ConntrackLimit int64             `json:"conntrackLimit"` // 0 when there is no table
	Services       []ServiceCounters `json:"services,omitempty"`
	Pods           []PodCounters     `json:"pods,omitempty"` // containers of a kubelet on this host
}

// Reader reads a host's counters. The zero value reads the host it runs on.
type Reader struct {
	Root   string // of the file system; "" is /
	Cgroup string // where the host's own cgroup is, below Root; "" is sys/fs/cgroup

	Services *Services // nil: none
}

var started = time.Now()

func (r Reader) path(name string) string { return filepath.Join("/", r.Root, name) }

func (r Reader) group(name string) string {
	if r.Cgroup == "" {
		return filepath.Join("sys/fs/cgroup", name)
	}
	return filepath.Join(r.Cgroup, name)
}

// read is a file's text; "" when it can't be read: the caller knows what is
// unknown then.
func (r Reader) read(name string) string {
	raw, err := os.ReadFile(r.path(name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}

func (r Reader) exists(name string) bool {
	_, err := os.Stat(r.path(name))
	return err == nil
}

// Read reads all counters. A host whose own cgroup is not the root of the tree
// (a container, an nspawn machine) is read from that cgroup, every other from
// /proc. A file that a host lacks leaves its counter unknown; without a CPU
// counter there is an error.
func (r Reader) Read() (Counters, error) {
	c := Counters{
		UnixNano: time.Now().UnixNano(), MonotonicNano: max(1, int64(time.Since(started))),
		Kind: "proc", PSICPUSeconds: -1, PSIIOSeconds: -1, DiskBusySeconds: -1,
	}
	cpu, steal, all, err := parseStat(r.read("proc/stat"))
	if err != nil {
		return c, err
	}
	c.CPUSeconds, c.StealSeconds, c.MachineSeconds, c.BusySeconds = cpu, steal, all, cpu
	c.Boot = machine(r.read("proc/stat"))
	c.Conntrack = number(r.read("proc/sys/net/netfilter/nf_conntrack_count"))
	c.ConntrackLimit = number(r.read("proc/sys/net/netfilter/nf_conntrack_max"))
	c.RxBytes, c.TxBytes = parseNetDev(r.read("proc/net/dev"), func(name string) bool {
		return r.exists("sys/class/net/" + name + "/device")
	})
	c.ListenOverflows = parseNetstat(r.read("proc/net/netstat"), "ListenOverflows")
	switch r.version() {
	case 1:
		err = r.readV1(&c)
	case 2:
		err = r.readV2(&c)
	default:
		c.MemoryBytes, c.MemoryLimit = parseMeminfo(r.read("proc/meminfo"))
		c.OOMKills = field(r.read("proc/vmstat"), "oom_kill")
		c.PSICPUSeconds = parsePressure(r.read("proc/pressure/cpu"))
		c.PSIIOSeconds = parsePressure(r.read("proc/pressure/io"))
		c.DiskBusySeconds = parseDiskstats(r.read("proc/diskstats"))
	}
	c.Pods = r.pods()
	var self syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &self); err == nil {
		c.SelfCPUSeconds = float64(self.Utime.Nano()+self.Stime.Nano()) / 1e9
	}
	// Last: a service may take 900 ms, and the host's counters are of the time above.
	c.Services, _ = r.Services.Read() // one that does not answer has no counters: no data
	return c, err
}

// version is that of the cgroup tree that the host's own group is in, 0 when the
// host is the whole machine. Every v1 group has a quota file and only a root has
// cgroup.sane_behavior; v2 roots have no cpu.max. Where a host has a group of its
// own in both trees, the one with a cap counts.
func (r Reader) version() int {
	quota, limit := r.read(r.group("cpu/cpu.cfs_quota_us")), r.read(r.group("cpu.max"))
	if r.exists(r.group("cpu/cgroup.sane_behavior")) {
		quota = ""
	}
	switch {
	case quota == "" && limit == "":
		return 0
	case quota == "" || (capV2(limit) > 0 && capV1(quota, "100000") == 0):
		return 2
	}
	return 1
}

// capV1 is a v1 quota in CPUs, 0 when it is no cap.
func capV1(quota, period string) float64 {
	q, errQ := strconv.ParseFloat(quota, 64)
	p, errP := strconv.ParseFloat(period, 64)
	if errQ != nil || errP != nil || q <= 0 || p <= 0 {
		return 0
	}
	return q / p
}

// capV2 is the text of cpu.max, "QUOTA PERIOD", in CPUs, 0 when it is no cap.
func capV2(text string) float64 {
	quota, period, _ := strings.Cut(text, " ")
	return capV1(quota, period)
}

func (r Reader) readV1(c *Counters) error {
	c.Kind = "cgroup"
	nanos, err := strconv.ParseInt(r.read(r.group("cpuacct/cpuacct.usage")), 10, 64)
	if err != nil {
		return fmt.Errorf("cpuacct.usage: %w", err)
	}
	c.CPUSeconds = float64(nanos) / 1e9
	c.CapCPUs = capV1(r.read(r.group("cpu/cpu.cfs_quota_us")), r.read(r.group("cpu/cpu.cfs_period_us")))
	stat := r.read(r.group("cpu/cpu.stat"))
	c.Periods, c.Throttled = field(stat, "nr_periods"), field(stat, "nr_throttled")
	c.MemoryBytes = number(r.read(r.group("memory/memory.usage_in_bytes"))) - field(r.read(r.group("memory/memory.stat")), "total_inactive_file")
	c.MemoryLimit = memoryLimit(r.read(r.group("memory/memory.limit_in_bytes")))
	c.OOMKills = r.oomKillsV1()
	r.readPressure(c, "unified")
	return nil
}

// oomKillsV1 sums the kills of the group and all below it: v1 counts one in the
// victim's own group only.
func (r Reader) oomKillsV1() int64 {
	var kills int64
	root := r.path(r.group("memory"))
	_ = filepath.WalkDir(root, func(dir string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return nil // a group that is gone by now has no count left to read
		}
		raw, _ := os.ReadFile(filepath.Join(dir, "memory.oom_control"))
		kills += field(string(raw), "oom_kill")
		return nil
	})
	return kills
}

func (r Reader) readV2(c *Counters) error {
	c.Kind = "cgroup"
	stat := r.read(r.group("cpu.stat"))
	if !strings.Contains(stat, "usage_usec") {
		return fmt.Errorf("cpu.stat: no usage_usec in %q", stat)
	}
	c.CPUSeconds = float64(field(stat, "usage_usec")) / 1e6
	c.CapCPUs = capV2(r.read(r.group("cpu.max")))
	c.Periods, c.Throttled = field(stat, "nr_periods"), field(stat, "nr_throttled")
	c.MemoryBytes = number(r.read(r.group("memory.current"))) - field(r.read(r.group("memory.stat")), "inactive_file")
	c.MemoryLimit = memoryLimit(r.read(r.group("memory.max")))
	c.OOMKills = field(r.read(r.group("memory.events")), "oom_kill")
	r.readPressure(c, "")
	return nil
}

// readPressure reads the group's own PSI. Only a root group lacks cgroup.events,
// and a root's pressure is the whole machine's.
func (r Reader) readPressure(c *Counters, below string) {
	if r.exists(r.group(filepath.Join(below, "cgroup.events"))) {
		c.PSICPUSeconds = parsePressure(r.read(r.group(filepath.Join(below, "cpu.pressure"))))
		c.PSIIOSeconds = parsePressure(r.read(r.group(filepath.Join(below, "io.pressure"))))
	}
}

// memoryLimit is a cgroup's limit in bytes, 0 for "max" (v2) and for the page
// counter's maximum (v1).
func memoryLimit(text string) int64 {
	if n := number(text); n < 1<<60 {
		return n
	}
	return 0
}

func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64) // no number: unknown, 0
	return n
}
