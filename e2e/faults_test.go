package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// update is a `pulumi up` in the background.
type update struct {
	cmd    *exec.Cmd
	output lockedBuffer
	done   chan error
}

// start begins an up, in a process group of its own, and waits for a text in
// what it prints.
func (s *stack) start(text string) *update {
	s.t.Helper()
	u := &update{cmd: exec.Command(filepath.Join(s.root, "bin", "pulumi"), "up", "--yes", "--skip-preview", "--stack", "e2e", "--non-interactive"), done: make(chan error, 1)}
	u.cmd.Dir, u.cmd.Env = s.root, s.env
	u.cmd.Stdout, u.cmd.Stderr = &u.output, &u.output
	u.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := u.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() { u.done <- u.cmd.Wait() }()
	deadline := time.After(5 * time.Minute)
	for !strings.Contains(u.output.String(), text) {
		select {
		case err := <-u.done:
			s.t.Fatalf("up ended before it printed %q: %v\n%s", text, err, u.output.String())
		case <-deadline:
			s.t.Fatalf("up did not print %q in 5 minutes\n%s", text, u.output.String())
		case <-time.After(100 * time.Millisecond):
		}
	}
	return u
}

// signal sends a signal to the up and its plugins, and waits for its end.
func (u *update) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(-u.cmd.Process.Pid, sig); err != nil {
		t.Fatal(err)
	}
	select {
	case <-u.done:
	case <-time.After(2 * time.Minute):
		t.Fatalf("up did not end 2 minutes after %v\n%s", sig, u.output.String())
	}
}

// processes of a machine whose command line holds a text.
func processes(t *testing.T, machine, text string) []int {
	t.Helper()
	var found []int
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		group, _ := os.ReadFile(filepath.Join(dir, "cgroup"))
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if bytes.Contains(group, []byte("/"+network+"-"+machine)) && strings.Contains(strings.ReplaceAll(string(line), "\x00", " "), text) {
			pid, err := strconv.Atoi(filepath.Base(dir))
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, pid)
		}
	}
	return found
}

func kill(t *testing.T, machine, text string) {
	t.Helper()
	pids := processes(t, machine, text)
	if len(pids) == 0 {
		t.Fatalf("no process of %s has %q", machine, text)
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
			t.Fatal(err)
		}
	}
}

// fillDisk lays a file system without a free byte over a folder of a machine.
func fillDisk(t *testing.T, machine, folder string) (free func()) {
	t.Helper()
	inside := func(command string) {
		t.Helper()
		sshd := processes(t, machine, "sshd: /usr/sbin/sshd") // in no sandbox: its mounts are the machine's
		if len(sshd) == 0 {
			t.Fatalf("machine %s has no sshd", machine)
		}
		out, err := exec.Command("nsenter", "--target", strconv.Itoa(sshd[0]), "--mount", "--", "sh", "-ec", command).CombinedOutput()
		if err != nil {
			t.Fatalf("%s in %s: %v\n%s", command, machine, err, out)
		}
	}
	inside("mount -t tmpfs -o size=4k tmpfs " + folder + "; head -c 4096 /dev/zero >" + folder + "/full")
	return func() { t.Helper(); inside("umount " + folder) }
}

// faults goes through what can die during an up. The stack is up with a load
// that takes half a minute; rows is what the ledger has.
func (s *stack) faults(l lab, ledger string, rows int) (after int) {
	s.t.Helper()
	again := func(id string) {
		config := strings.Replace(l.config(), "    step:", "    runId: "+id+"\n    step:", 1)
		s.write(config)
	}
	want := func(what string, n int) {
		s.t.Helper()
		if got := ledgerRows(s.t, ledger); got != n {
			s.t.Errorf("%s: the ledger has %d rows, want %d", what, got, n)
		}
	}

	for i, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGINT} {
		again(fmt.Sprintf("signal-%d", i))
		u := s.start("step bracket")
		u.signal(s.t, sig)
		want(sig.String(), rows)
		out, _ := s.must("up", "--yes", "--skip-preview", "--stack", "e2e")
		rows++
		want("the up after "+sig.String(), rows)
		if !strings.Contains(out, "step bracket") {
			s.t.Errorf("the up after %v shows nothing of the load it attached to:\n%s", sig, out)
		}
	}

	again("runner-killed")
	u := s.start("step bracket")
	kill(s.t, "loadgen", "lab-runner run")
	if err := <-u.done; err == nil || !strings.Contains(u.output.String(), "run pulumi up again") {
		s.t.Errorf("an up whose load generator was killed: %v\n%s", err, u.output.String())
	}
	want("a killed runner", rows)
	s.must("up", "--yes", "--skip-preview", "--stack", "e2e")
	rows++
	want("the up after a killed runner", rows)

	again("ssh-cut")
	u = s.start("step bracket")
	kill(s.t, "loadgen", "sshd: root@")
	if err := <-u.done; err == nil {
		s.t.Errorf("an up whose SSH connection was cut succeeded:\n%s", u.output.String())
	}
	want("a cut SSH connection", rows)
	out, _ := s.must("up", "--yes", "--skip-preview", "--stack", "e2e")
	rows++
	want("the up after a cut SSH connection", rows)
	if !strings.Contains(out, "step bracket") {
		s.t.Errorf("the up after a cut SSH connection shows nothing of the load it attached to:\n%s", out)
	}

	again("disk-full")
	free := fillDisk(s.t, "loadgen", "/var/lib/lab")
	out, _, err := s.run("up", "--yes", "--skip-preview", "--stack", "e2e")
	if err == nil || !strings.Contains(out, "loadgen: load: /var/lib/lab/") || !strings.Contains(out, "could not be written: 0 free") {
		s.t.Errorf("an up with a full disk: %v\n%s", err, out)
	}
	want("a full disk", rows)
	free()
	s.must("up", "--yes", "--skip-preview", "--stack", "e2e")
	rows++
	want("the up after a full disk", rows)

	kill(s.t, "database", "")
	out, _ = s.must("up", "--yes", "--skip-preview", "--stack", "e2e")
	want("a machine that died", rows) // it is back, nothing that moves the ceiling changed
	if !strings.Contains(out, "machine database: ") {
		s.t.Errorf("the up after a machine died does not bring it back:\n%s", out)
	}

	restart(s.t)
	out, _ = s.must("up", "--yes", "--skip-preview", "--stack", "e2e")
	want("a restart of the computer", rows)
	for _, name := range []string{"network " + network, "machine app", "machine database", "machine cache", "machine edge", "machine loadgen"} {
		if !strings.Contains(out, name+": ") {
			s.t.Errorf("the up after a restart of the computer does not bring %s back:\n%s", name, out)
		}
	}
	return rows
}

// restart leaves of the stack what a restart of the computer leaves: the disks.
func restart(t *testing.T) {
	t.Helper()
	for _, machine := range []string{"app", "database", "cache", "edge", "loadgen"} {
		kill(t, machine, "")
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range lines {
		raw, _ := os.ReadFile(path)
		line := strings.ReplaceAll(string(raw), "\x00", " ")
		if !strings.Contains(line, " network serve ") || !strings.Contains(line, network) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if at := strings.Fields(line)[1]; strings.Contains(at, "/"+network+"/") {
			if err := syscall.Unmount(at, syscall.MNT_DETACH); err != nil {
				t.Fatalf("unmount %s: %v", at, err)
			}
		}
	}
	if out, err := exec.Command("ip", "netns", "delete", network).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.Remove("/run/lab/" + network + ".json"); err != nil {
		t.Fatal(err)
	}
}
