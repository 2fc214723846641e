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

// cpuPeriod is the length of the CPU cap's period in µs: half of the kernel's
// default, so that a small cap stalls a machine for shorter.
const cpuPeriod = 50_000

// cgroup is a machine's control group: one folder in each hierarchy, below the
// hierarchy's root, so that no other group's caps bear on it.
type cgroup struct {
	root    string // where the hierarchies are mounted
	name    string
	unified bool // cgroup v2 alone
}

func newCgroup(name string) cgroup { return cgroupIn("/sys/fs/cgroup", name) }

func cgroupIn(root, name string) cgroup {
	_, err := os.Stat(filepath.Join(root, "cgroup.controllers"))
	return cgroup{root, name, err == nil}
}

// folders are the group's folders, one a hierarchy; a symbolic link such as cpu
// → cpu,cpuacct is no hierarchy of its own.
func (c cgroup) folders() []string {
	if c.unified {
		return []string{filepath.Join(c.root, c.name)}
	}
	var found []string
	entries, _ := os.ReadDir(c.root)
	for _, e := range entries {
		hierarchy := filepath.Join(c.root, e.Name())
		if _, err := os.Stat(filepath.Join(hierarchy, "cgroup.procs")); err == nil && e.IsDir() {
			found = append(found, filepath.Join(hierarchy, c.name))
		}
	}
	return found
}

func (c cgroup) create() error {
	if c.unified {
		for _, controller := range []string{"cpu", "memory", "pids"} {
			if err := write(filepath.Join(c.root, "cgroup.subtree_control"), "+"+controller); err != nil {
				return fmt.Errorf("enable the %s controller: %w", controller, err)
			}
		}
	}
	folders := c.folders()
	if len(folders) == 0 {
		return fmt.Errorf("no cgroup hierarchy is mounted at %s", c.root)
	}
	for _, dir := range folders {
		if err := os.Mkdir(dir, 0o755); err != nil && !os.IsExist(err) {
			return err
		}
		if !strings.Contains(","+filepath.Base(filepath.Dir(dir))+",", ",cpuset,") {
			continue
		}
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} { // empty in a new v1 group: no process may enter
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
		return c.limitUnified(quota, memory)
	}
	cpu := filepath.Join(c.root, "cpu", c.name)
	err := errors.Join(
		write(filepath.Join(cpu, "cpu.cfs_period_us"), strconv.Itoa(cpuPeriod)),
		write(filepath.Join(cpu, "cpu.cfs_quota_us"), quota),
		write(filepath.Join(c.root, "memory", c.name, "memory.limit_in_bytes"), memory),
	)
	if errors.Is(err, syscall.EBUSY) {
		return fmt.Errorf("a cap of %d MiB of memory is below what it holds now: %w", memoryMiB, err)
	}
	return err
}

// limitUnified sets the caps of cgroup v2. There nspawn makes two groups below
// ours, supervisor and payload, and payload is what the machine sees as its
// root: once it is there it bears the caps, so that the machine reads them and
// its throttling.
func (c cgroup) limitUnified(quota, memory string) error {
	set := func(dir, quota, memory string) error {
		return errors.Join(
			write(filepath.Join(dir, "cpu.max"), fmt.Sprintf("%s %d", quota, cpuPeriod)),
			write(filepath.Join(dir, "memory.max"), memory),
		)
	}
	own := filepath.Join(c.root, c.name)
	payload := filepath.Join(own, "payload")
	if _, err := os.Stat(filepath.Join(payload, "cpu.max")); err != nil {
		return set(own, quota, memory)
	}
	return errors.Join(set(payload, quota, memory), set(own, "max", "max"))
}

// remove kills what is in the group and removes its folders.
func (c cgroup) remove(timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	for {
		left := 0
		for _, dir := range c.folders() {
			left += removeGroups(dir)
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

// removeGroups kills the processes below dir, removes its folders deepest first
// and counts those that stay.
func removeGroups(dir string) (left int) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	for _, e := range entries {
		if e.IsDir() {
			left += removeGroups(filepath.Join(dir, e.Name()))
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
