package sample

import (
	"fmt"
	"strconv"
	"strings"
)

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

// machine tells physical machines apart, from within a container too: the boot id
// can't, systemd-nspawn gives each container one of its own.
func machine(stat string) string {
	return fmt.Sprintf("%d/%d", field(stat, "btime"), strings.Count(stat, "\ncpu"))
}

func parseMeminfo(text string) (used, total int64) {
	total = field(text, "MemTotal:") << 10
	return total - field(text, "MemAvailable:")<<10, total
}

// parseNetDev sums the bytes of the hardware interfaces: bridges and veths carry
// the same bytes once more. Without hardware (in a container) it sums all but lo.
func parseNetDev(text string, hardware func(name string) bool) (rx, tx int64) {
	var all [2]int64
	found := false
	for line := range strings.Lines(text) {
		name, rest, ok := strings.Cut(line, ":")
		name = strings.TrimSpace(name)
		f := strings.Fields(rest)
		if !ok || name == "lo" || len(f) < 9 {
			continue
		}
		r, t := number(f[0]), number(f[8])
		all[0], all[1] = all[0]+r, all[1]+t
		if hardware(name) {
			found, rx, tx = true, rx+r, tx+t
		}
	}
	if !found {
		return all[0], all[1]
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
				return number(values[j])
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
			return number(f[1])
		}
	}
	return 0
}
