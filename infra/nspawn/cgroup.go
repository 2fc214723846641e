package nspawn

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const cgroupRoot = "/sys/fs/cgroup"

// cpuPeriod is the length of the CPU cap's period in µs: half of the kernel's
// default, so that a small cap stalls a machine for shorter.
const cpuPeriod = 50_000

// cgroup is a machine's control group: one folder in each hierarchy.
type cgroup struct {
	name    string
	unified bool // cgroup v2 alone
}

func newCgroup(name string) cgroup {
	_, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers"))
	return cgroup{name, err == nil}
}

// folders are the group's folders, one a hierarchy, symbolic links left out.
func (c cgroup) folders() []string {
	if c.unified {
		return []string{filepath.Join(cgroupRoot, c.name)}
	}
	var found []string
	for _, h := range []string{"cpu,cpuacct", "cpu", "cpuacct", "cpuset", "memory", "pids", "blkio", "systemd", "unified"} {
		dir := filepath.Join(cgroupRoot, h)
		if info, err := os.Lstat(dir); err == nil && info.IsDir() {
			found = append(found, filepath.Join(dir, c.name))
		}
	}
	return found
}

func (c cgroup) create() error {
	if c.unified {
		for _, controller := range []string{"cpu", "memory", "pids"} {
			if err := write(filepath.Join(cgroupRoot, "cgroup.subtree_control"), "+"+controller); err != nil {
				return fmt.Errorf("enable the %s controller: %w", controller, err)
			}
		}
	}
	for _, dir := range c.folders() {
		if err := os.Mkdir(dir, 0o755); err != nil && !os.IsExist(err) {
			return err
		}
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} { // empty in a new v1 group: no process may enter
			if filepath.Base(filepath.Dir(dir)) != "cpuset" {
				continue
			}
			all, err := os.ReadFile(filepath.Join(filepath.Dir(dir), file))
			if err != nil {
				return err
			}
			if err := write(filepath.Join(dir, file), strings.TrimSpace(string(all))); err != nil {
				return err
			}
		}
	}
	return nil
}

// limit sets the caps; on a running machine they apply at once.
func (c cgroup) limit(cpus float64, memoryMiB int) error {
	quota := strconv.Itoa(int(math.Round(cpus * cpuPeriod)))
	memory := strconv.Itoa(memoryMiB << 20)
	if c.unified {
		dir := filepath.Join(cgroupRoot, c.name)
		return errors.Join(
			write(filepath.Join(dir, "cpu.max"), fmt.Sprintf("%s %d", quota, cpuPeriod)),
			write(filepath.Join(dir, "memory.max"), memory),
		)
	}
	cpu := filepath.Join(cgroupRoot, "cpu", c.name)
	return errors.Join(
		write(filepath.Join(cpu, "cpu.cfs_period_us"), strconv.Itoa(cpuPeriod)),
		write(filepath.Join(cpu, "cpu.cfs_quota_us"), quota),
		write(filepath.Join(cgroupRoot, "memory", c.name, "memory.limit_in_bytes"), memory),
	)
}

// remove kills what is in the group and removes its folders.
func (c cgroup) remove(timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	for {
		left := 0
		for _, dir := range c.folders() {
			left += removeTree(dir)
		}
		if left == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("cgroup %s: %d folders are still busy after %s", c.name, left, timeout)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// removeTree kills the processes below dir, removes its folders deepest first
// and counts those that stay.
func removeTree(dir string) (left int) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	for _, e := range entries {
		if e.IsDir() {
			left += removeTree(filepath.Join(dir, e.Name()))
		}
	}
	raw, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	for field := range strings.FieldsSeq(string(raw)) {
		if pid, err := strconv.Atoi(field); err == nil && pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGKILL) // gone already is as good
		}
	}
	if err := syscall.Rmdir(dir); err != nil && err != syscall.ENOENT {
		left++
	}
	return left
}

func write(path, value string) error {
	return os.WriteFile(path, []byte(value), 0o644)
}
