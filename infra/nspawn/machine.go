package nspawn

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
)

//go:embed files/boot.sh
var bootScript string

// bootTimeout bounds a machine's way from its start to an answer of its sshd.
const bootTimeout = 120 * time.Second

// MachineUp makes the machine, or brings it to the spec: caps apply live, and a
// machine that is dead starts again on the disk it had.
func MachineUp(ctx context.Context, stateDir string, spec MachineSpec, base string, log io.Writer) error {
	dir := machineDir(stateDir, spec.Network, spec.Name)
	unlock, err := lock(dir + ".lock")
	if err != nil {
		return err
	}
	defer unlock()
	if err := claim(spec.Network, stateDir); err != nil {
		return err
	}
	group := newCgroup(spec.Network + "-" + spec.Name)
	path := filepath.Join(dir, "record.json")
	if r, err := readRecord(path); err == nil && r.Process.alive() {
		if err := group.limit(spec.CPUs, spec.MemoryMiB); err != nil {
			return fmt.Errorf("machine %s: apply the caps: %w", spec.Name, err)
		}
		r.Incarnation = max(r.Incarnation, spec.Incarnation)
		return errors.Join(writeIdentity(filepath.Join(dir, "root"), spec), r.write(path))
	}
	if err := group.remove(20 * time.Second); err != nil { // of a run that was cut
		return err
	}
	root, err := mountDisk(dir, baseDir(stateDir, base))
	if err != nil {
		return fmt.Errorf("machine %s: %w", spec.Name, err)
	}
	if err := writeIdentity(root, spec); err != nil {
		return fmt.Errorf("machine %s: write its identity: %w", spec.Name, err)
	}
	if err := errors.Join(group.create(), group.limit(spec.CPUs, spec.MemoryMiB)); err != nil {
		return fmt.Errorf("machine %s: make its cgroup: %w", spec.Name, err)
	}
	return boot(ctx, dir, root, spec, group, log)
}

// MachineDown ends the machine and removes its disk.
func MachineDown(stateDir, network, name string) error {
	dir := machineDir(stateDir, network, name)
	unlock, err := lock(dir + ".lock")
	if err != nil {
		return err
	}
	defer unlock()
	if err := claim(network, stateDir); err != nil {
		return err
	}
	if err := newCgroup(network + "-" + name).remove(20 * time.Second); err != nil {
		return fmt.Errorf("machine %s: %w", name, err)
	}
	if err := unmount(filepath.Join(dir, "root")); err != nil {
		return fmt.Errorf("machine %s: %w", name, err)
	}
	return errors.Join(os.RemoveAll(dir), os.Remove(dir+".lock"))
}

// mountDisk mounts the machine's disk: the base tree below, its own files above.
func mountDisk(dir, base string) (root string, err error) {
	root = filepath.Join(dir, "root")
	upper, work := filepath.Join(dir, "upper"), filepath.Join(dir, "work")
	for _, d := range []string{root, upper, work} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return "", err
		}
	}
	if err := unmount(root); err != nil { // of a run that was cut, or with another base
		return "", err
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", base, upper, work)
	if err := syscall.Mount("overlay", root, "overlay", 0, options); err != nil {
		return "", fmt.Errorf("mount its disk at %s: %w; the folder's filesystem must carry an overlay (ext4, xfs or btrfs do)", root, err)
	}
	return root, nil
}

func unmount(root string) error {
	for {
		err := syscall.Unmount(root, 0)
		switch {
		case err == nil:
			continue
		case errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.ENOENT):
			return nil
		case errors.Is(err, syscall.EBUSY):
			return syscall.Unmount(root, syscall.MNT_DETACH)
		default:
			return fmt.Errorf("unmount %s: %w", root, err)
		}
	}
}

// writeIdentity writes what makes the base tree this machine.
func writeIdentity(root string, spec MachineSpec) error {
	seed, err := seedOf(spec.HostKeySeed)
	if err != nil {
		return err
	}
	key, err := hostKeyFile(seed)
	if err != nil {
		return err
	}
	for _, f := range []struct {
		path, content string
		mode          os.FileMode
	}{
		{"etc/hostname", spec.Name + "\n", 0o644},
		{"etc/hosts", hostsFile(spec), 0o644},
		{"etc/systemd/network/10-host0.network", networkFile(spec), 0o644},
		{"etc/ssh/ssh_host_ed25519_key", string(key), 0o600},
		{"root/.ssh/authorized_keys", strings.TrimSpace(spec.AuthorizedKey) + "\n", 0o600},
	} {
		if err := writeFile(filepath.Join(root, f.path), []byte(f.content), f.mode); err != nil {
			return err
		}
	}
	return nil
}

func hostsFile(spec MachineSpec) string {
	lines := []string{"127.0.0.1 localhost"}
	for name, address := range spec.Hosts {
		lines = append(lines, address+" "+name)
	}
	sort.Strings(lines[1:])
	return strings.Join(lines, "\n") + "\n"
}

func networkFile(spec MachineSpec) string {
	return "[Match]\nName=host0\n\n[Network]\nAddress=" + spec.Address + "\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n"
}

// boot starts the machine and waits until its sshd answers with its own key.
func boot(ctx context.Context, dir, root string, spec MachineSpec, group cgroup, log io.Writer) error {
	console, err := os.Create(filepath.Join(dir, "console.log"))
	if err != nil {
		return err
	}
	defer console.Close()
	start := time.Now()
	cmd := exec.Command("bash", append([]string{"-c", bootScript, "boot.sh", spec.Network, spec.Name, root, bridge}, group.folders()...)...)
	cmd.Stdout, cmd.Stderr = console, console
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	p, err := identify(cmd.Process.Pid)
	if err != nil {
		return err
	}
	if err := (record{spec.Incarnation, p, ""}).write(filepath.Join(dir, "record.json")); err != nil {
		return err
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	ctx, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	for {
		err := answers(spec)
		if err == nil {
			fmt.Fprintf(log, "machine %s: up in %.1f s\n", spec.Name, time.Since(start).Seconds())
			return nil
		}
		select {
		case <-exited:
			text, _ := os.ReadFile(console.Name())
			return fmt.Errorf("machine %s ended while it booted:\n%s", spec.Name, tail(string(text), 10))
		case <-ctx.Done():
			text, _ := os.ReadFile(console.Name())
			return fmt.Errorf("machine %s: no answer of its sshd after %s: %w\n%s", spec.Name, bootTimeout, err, tail(string(text), 10))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// answers checks that the machine's sshd answers with the machine's key.
func answers(spec MachineSpec) error {
	seed, err := seedOf(spec.HostKeySeed)
	if err != nil {
		return err
	}
	line, err := HostKey(seed)
	if err != nil {
		return err
	}
	want, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
	if err != nil {
		return err
	}
	address, _, _ := strings.Cut(spec.Address, "/")
	conn, err := dial(spec.Network, net.JoinHostPort(address, "22"), 2*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	checked := false
	_, _, _, err = ssh.NewClientConn(conn, address, &ssh.ClientConfig{User: "root", HostKeyCallback: func(host string, a net.Addr, key ssh.PublicKey) error {
		err := ssh.FixedHostKey(want)(host, a, key)
		checked = err == nil
		return err
	}})
	if checked {
		return nil // no login was offered: the key is all that is asked here
	}
	return err
}
