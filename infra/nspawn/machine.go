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
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
)

//go:embed files/boot.sh
var bootScript string

const (
	// bootTimeout bounds a machine's way from its start to an answer of its sshd.
	bootTimeout = 120 * time.Second
	// answerTimeout is for a machine that runs: it may be busy at its cap.
	answerTimeout = 30 * time.Second
	// killTimeout is for the processes of a machine that was sent SIGKILL.
	killTimeout = 20 * time.Second
)

// machine is what Up and Down work with.
type machine struct {
	spec  MachineSpec
	dir   string
	group cgroup
	log   io.Writer
}

func newMachine(stateDir string, spec MachineSpec, log io.Writer) machine {
	return machine{spec, machineDir(stateDir, spec.Network, spec.Name), newCgroup(spec.Network + "-" + spec.Name), log}
}

func (m machine) record() string { return filepath.Join(m.dir, recordFile) }
func (m machine) root() string   { return filepath.Join(m.dir, "root") }

// MachineUp makes the machine on the base tree with that digest, or brings it to
// the spec: caps, keys and peers apply live, and a machine that is dead, or
// whose sshd doesn't answer, starts again on the disk it had.
func MachineUp(ctx context.Context, stateDir string, spec MachineSpec, base string, log io.Writer) error {
	if err := require("systemd-nspawn", "nsenter"); err != nil {
		return err
	}
	m := newMachine(stateDir, spec, log)
	held, err := lock(m.dir + ".lock")
	if err != nil {
		return err
	}
	defer held.Close()
	if err := claim(spec.Network, stateDir); err != nil {
		return err
	}
	if !namespaceLives(spec.Network) {
		return fmt.Errorf("machine %s: its network %s is not up; run lab network up first", spec.Name, spec.Network)
	}
	r, err := readRecord(m.record())
	if err == nil && r.Process.alive() {
		err := m.adopt(ctx, r)
		if !errors.Is(err, errSilent) {
			return wrap(spec.Name, err)
		}
		fmt.Fprintf(log, "machine %s: its sshd does not answer; starting it again\n", spec.Name)
	}
	if r.Digest != "" {
		base = r.Digest // its disk is an overlay on that tree and on no other
	}
	return wrap(spec.Name, m.start(ctx, held, baseDir(stateDir, base), base))
}

func wrap(name string, err error) error {
	if err != nil {
		return fmt.Errorf("machine %s: %w", name, err)
	}
	return nil
}

// adopt brings a running machine to the spec.
func (m machine) adopt(ctx context.Context, r record) error {
	if err := m.group.limit(m.spec.CPUs, m.spec.MemoryMiB); err != nil {
		return fmt.Errorf("apply its caps: %w", err)
	}
	if err := writeIdentity(m.root(), m.spec); err != nil {
		return fmt.Errorf("write its identity: %w", err)
	}
	if err := m.wait(ctx, r.Process, answerTimeout); err != nil {
		return err
	}
	r.Incarnation = m.spec.Incarnation
	return r.write(m.record())
}

// start boots the machine, after whatever is left of it.
func (m machine) start(ctx context.Context, held *os.File, baseDir, base string) error {
	if err := m.group.remove(killTimeout); err != nil {
		return err
	}
	if _, err := os.Stat(baseDir); err != nil {
		return fmt.Errorf("the base tree %s of its disk is gone; run lab machine down %s %s, then up again on an empty disk", base, m.spec.Network, m.spec.Name)
	}
	root, err := mountDisk(m.dir, baseDir)
	if err != nil {
		return err
	}
	if err := writeIdentity(root, m.spec); err != nil {
		return fmt.Errorf("write its identity: %w", err)
	}
	if err := m.group.create(); err != nil {
		return fmt.Errorf("make its cgroup: %w", err)
	}
	if err := m.group.limit(m.spec.CPUs, m.spec.MemoryMiB); err != nil {
		return fmt.Errorf("cap it: %w", err)
	}
	begin := time.Now()
	p, err := m.boot(held, base)
	if err == nil {
		err = m.wait(ctx, p, bootTimeout)
	}
	if errors.Is(err, errSilent) || errors.Is(err, errEnded) {
		return errors.Join(fmt.Errorf("%w; its console's last lines:\n%s", err, fileTail(m.console(), 10)), m.group.remove(killTimeout))
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(m.log, "machine %s: booted in %.1f s\n", m.spec.Name, time.Since(begin).Seconds())
	return m.group.limit(m.spec.CPUs, m.spec.MemoryMiB) // with cgroup v2, on the group that the boot made
}

func (m machine) console() string { return filepath.Join(m.dir, "console.log") }

// boot starts systemd-nspawn in a session of its own, with none of our files but
// the lock, which it holds until it is in its cgroups: from there on, killing
// the cgroups ends it.
func (m machine) boot(held *os.File, base string) (process, error) {
	console, err := os.Create(m.console())
	if err != nil {
		return process{}, err
	}
	defer console.Close()
	containers := ""
	if m.spec.Node {
		containers = filepath.Join(m.dir, "containers")
		if err := os.MkdirAll(containers, 0o711); err != nil {
			return process{}, err
		}
	}
	args := []string{"-c", bootScript, "boot.sh", m.spec.Network, m.spec.Name, m.root(), bridge, containers}
	cmd := exec.Command("bash", append(args, m.group.folders()...)...)
	cmd.Stdout, cmd.Stderr = console, console
	cmd.ExtraFiles = []*os.File{held}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return process{}, err
	}
	p, err := identify(cmd.Process.Pid) // before it is waited for: a dead one is still there to be asked
	go func() { _ = cmd.Wait() }()
	if err != nil {
		return process{}, fmt.Errorf("%w: %w", errEnded, err)
	}
	return p, record{m.spec.Incarnation, p, base}.write(m.record())
}

var (
	errSilent = errors.New("no answer of its sshd")
	errEnded  = errors.New("it ended while it booted")
)

// wait waits until the machine's sshd answers with the machine's key.
func (m machine) wait(ctx context.Context, p process, timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	for {
		err := answers(m.spec)
		switch {
		case err == nil:
			return nil
		case !p.alive():
			return errEnded
		case time.Now().After(deadline):
			return fmt.Errorf("%w after %s: %w", errSilent, timeout, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// answers checks that the machine's sshd answers with the machine's key.
func answers(spec MachineSpec) error {
	want, err := publicKey(spec)
	if err != nil {
		return err
	}
	conn, err := dial(spec.Network, net.JoinHostPort(spec.ip(), "22"), 2*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	checked := false
	_, _, _, err = ssh.NewClientConn(conn, spec.ip(), &ssh.ClientConfig{User: "root", HostKeyCallback: func(host string, a net.Addr, key ssh.PublicKey) error {
		err := ssh.FixedHostKey(want)(host, a, key)
		checked = err == nil
		return err
	}})
	if checked {
		return nil // no login was offered: the key is all that is asked here
	}
	return err
}

// MachineDown ends the machine and removes its disk. It works on what is left of
// one, and on nothing.
func MachineDown(stateDir, network, name string) error {
	m := newMachine(stateDir, MachineSpec{Network: network, Name: name}, io.Discard)
	held, err := lock(m.dir + ".lock")
	if err != nil {
		return err
	}
	defer held.Close()
	other, err := foreignOwner(network, stateDir)
	if err != nil {
		return err
	}
	if other == "" { // else the machine of this name is theirs, and ours is long dead
		if err := m.group.remove(killTimeout); err != nil {
			return wrap(name, err)
		}
	}
	if err := removeTree(m.dir); err != nil {
		return wrap(name, err)
	}
	if err := os.Remove(m.dir + ".lock"); err != nil {
		return wrap(name, err)
	}
	for dir := filepath.Dir(m.dir); dir != stateDir && os.Remove(dir) == nil; { // those that are empty now
		dir = filepath.Dir(dir)
	}
	return nil
}
