package nspawn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// bridge is the bridge's name inside each network namespace.
const bridge = "br0"

const namespacesDir = "/run/netns" // ip-netns(8)

func namespacePath(network string) string { return filepath.Join(namespacesDir, network) }

// namespaceLives tells a network namespace from the empty file that is left of
// one after a restart, where /run is a disk.
func namespaceLives(network string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(namespacePath(network), &fs) == nil && fs.Type == unix.NSFS_MAGIC
}

// NetworkUp makes the network, or brings it to the spec.
func NetworkUp(ctx context.Context, stateDir string, spec NetworkSpec, log io.Writer) error {
	if err := require("ip"); err != nil {
		return err
	}
	dir := networkDir(stateDir, spec.Name)
	held, err := lock(filepath.Join(dir, "lock"))
	if err != nil {
		return err
	}
	defer held.Close()
	if err := claim(spec.Name, stateDir); err != nil {
		return err
	}
	if err := makeNamespace(ctx, spec); err != nil {
		return fmt.Errorf("network %s: %w", spec.Name, err)
	}
	return startForwarder(ctx, held, dir, spec, log)
}

func makeNamespace(ctx context.Context, spec NetworkSpec) error {
	if !namespaceLives(spec.Name) {
		if err := os.Remove(namespacePath(spec.Name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := command(ctx, "ip", "netns", "add", spec.Name); err != nil {
			return err
		}
	}
	if command(ctx, "ip", "-n", spec.Name, "link", "show", bridge) != nil {
		if err := command(ctx, "ip", "-n", spec.Name, "link", "add", bridge, "type", "bridge"); err != nil {
			return err
		}
	}
	gateway := netip.PrefixFrom(netip.MustParseAddr(spec.Gateway), netip.MustParsePrefix(spec.Subnet).Bits())
	for _, args := range [][]string{
		{"link", "set", "lo", "up"},
		{"addr", "replace", gateway.String(), "dev", bridge},
		{"link", "set", bridge, "up"},
	} {
		if err := command(ctx, "ip", append([]string{"-n", spec.Name}, args...)...); err != nil {
			return err
		}
	}
	return nil
}

// NetworkDown ends what machines the network still has and removes it.
func NetworkDown(ctx context.Context, stateDir, network string) error {
	dir := networkDir(stateDir, network)
	held, err := lock(filepath.Join(dir, "lock"))
	if err != nil {
		return err
	}
	defer held.Close()
	if err := machinesDown(stateDir, network); err != nil {
		return err
	}
	if r, err := readRecord(filepath.Join(dir, recordFile)); err == nil {
		stop(r.Process)
	}
	other, err := foreignOwner(network, stateDir)
	if err != nil {
		return err
	}
	if other == "" {
		if err := removeNamespace(network); err != nil {
			return err
		}
	}
	if err := removeTree(dir); err != nil {
		return err
	}
	_ = os.Remove(filepath.Dir(dir)) // stays when another network is there
	if other != "" {
		return nil
	}
	return release(network)
}

// machinesDown ends machines that nobody else will: of an `up` that was killed
// before it could record them.
func machinesDown(stateDir, network string) error {
	entries, err := os.ReadDir(filepath.Join(networkDir(stateDir, network), "m"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	var wait sync.WaitGroup
	errs := make([]error, len(entries))
	for i, e := range entries {
		if e.IsDir() {
			wait.Go(func() { errs[i] = MachineDown(stateDir, network, e.Name()) })
		}
	}
	wait.Wait()
	return errors.Join(errs...)
}

func removeNamespace(network string) error {
	if err := unmount(namespacePath(network)); err != nil {
		return err
	}
	if err := os.Remove(namespacePath(network)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	// ip mounts this folder onto itself with the first namespace.
	if left, err := os.ReadDir(namespacesDir); err == nil && len(left) == 0 {
		if syscall.Unmount(namespacesDir, 0) == nil {
			_ = os.Remove(namespacesDir)
		}
	}
	return nil
}

func command(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
