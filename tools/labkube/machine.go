package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// cgroupRoot is the group of the pods, within the machine's own: what caps the
// machine caps them.
const cgroupRoot = "/labkube"

// ownSysctls are of this network namespace. kernelSysctls are of the whole
// computer, which other nodes share, and it is not a node's to change them: the
// kubelet, which sets them to these values where they differ, finds them set.
var (
	ownSysctls    = map[string]string{"net/ipv4/ip_forward": "1"}
	kernelSysctls = map[string]string{
		"vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10", "kernel/panic_on_oops": "1",
		"kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000",
	}
)

const (
	proc       = "/proc/sys"
	sysctlsRun = "/run/labkube/sysctls"
)

// prepareMachine makes what the node's parts need to be there.
func prepareMachine() error {
	for name, value := range ownSysctls {
		if err := os.WriteFile(filepath.Join(proc, name), []byte(value), 0); err != nil {
			return err
		}
	}
	if err := coverSysctls(); err != nil {
		return err
	}
	return makeCgroup()
}

// coverSysctls mounts a file of ours over each of the kernel's that has another
// value. Only this machine sees it, and it goes with the machine's mounts.
func coverSysctls() error {
	if err := os.MkdirAll(sysctlsRun, 0o755); err != nil {
		return err
	}
	for name, value := range kernelSysctls {
		at := filepath.Join(proc, name)
		text, err := os.ReadFile(at)
		if errors.Is(err, fs.ErrNotExist) || err == nil && strings.TrimSpace(string(text)) == value {
			continue
		}
		if err != nil {
			return err
		}
		cover := filepath.Join(sysctlsRun, strings.ReplaceAll(name, "/", "."))
		if err := os.WriteFile(cover, []byte(value+"\n"), 0o444); err != nil {
			return err
		}
		if err := unix.Mount(cover, at, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("cover %s: %w", at, err)
		}
	}
	return nil
}

// uncoverSysctls takes our files off the kernel's.
func uncoverSysctls() error {
	var errs []error
	for name := range kernelSysctls {
		if _, err := os.Stat(filepath.Join(sysctlsRun, strings.ReplaceAll(name, "/", "."))); err != nil {
			continue // it was never covered
		}
		// Not mounted any more, EINVAL, is as good.
		if err := unix.Unmount(filepath.Join(proc, name), unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
			errs = append(errs, fmt.Errorf("uncover %s: %w", name, err))
		}
	}
	if len(errs) == 0 {
		errs = append(errs, os.RemoveAll(sysctlsRun))
	}
	return errors.Join(errs...)
}

// leave stops the parts and takes our files off the kernel's values. Pods run on,
// as they do under k3s: what manages the unit decides about them.
func leave(s *supervisor) {
	s.close()
	if err := uncoverSysctls(); err != nil {
		log.Print(err)
	}
}

// makeCgroup makes the pods' group in every hierarchy: of version 1 the kubelet
// makes none at the root, and an empty cpuset runs nothing.
func makeCgroup() error {
	const root = "/sys/fs/cgroup"
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
		return os.MkdirAll(root+cgroupRoot, 0o755)
	}
	hierarchies, err := os.ReadDir(root)
	if err != nil {
		return err
	}
	for _, h := range hierarchies {
		if !h.IsDir() {
			continue
		}
		dir := filepath.Join(root, h.Name())
		if err := makeGroup(dir); err != nil {
			return err
		}
		for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(dir+cgroupRoot, name), text, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// makeGroup makes the pods' group in a hierarchy. systemd-nspawn gives a machine its
// own ones to read only.
func makeGroup(hierarchy string) error {
	err := os.MkdirAll(hierarchy+cgroupRoot, 0o755)
	if !errors.Is(err, unix.EROFS) {
		return err
	}
	if err := unix.Mount("", hierarchy, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_NOSUID|unix.MS_NOEXEC|unix.MS_NODEV, ""); err != nil {
		return fmt.Errorf("make %s writable: %w", hierarchy, err)
	}
	return os.MkdirAll(hierarchy+cgroupRoot, 0o755)
}
