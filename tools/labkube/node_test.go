package main

import (
	"bufio"
	"context"
	"errors"
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

// testNet is the namespace with the bridge between the nodes of a test; a node's
// own namespace, and its cgroup, has the node's name appended.
const testNet = "labkube-test"

// patience is for what takes seconds on an idle computer.
const patience = 3 * time.Minute

// testNode is a node in namespaces of this computer.
type testNode struct {
	t       *testing.T
	name    string
	address string
	dir     string    // of its files, the same inside and outside
	machine *exec.Cmd // its first process's parent
	init    int       // its first process, as this computer numbers it
	labkube *exec.Cmd
	ended   chan error // of labkube
}

func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func newTestNetwork(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("nodes need root: run the tests as root (sudo make test)")
	}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		t.Skip("these namespaces are made for cgroup v1")
	}
	_ = exec.Command("ip", "netns", "delete", testNet).Run() // of a run that was cut
	t.Cleanup(func() { command(t, "ip", "netns", "delete", testNet) })
	for _, args := range []string{
		"netns add " + testNet, "-n " + testNet + " link add br0 type bridge", "-n " + testNet + " link set br0 up",
	} {
		command(t, "ip", strings.Fields(args)...)
	}
}

// newTestNode is a machine with nothing on it yet.
func newTestNode(t *testing.T, name, address, bin string) *testNode {
	t.Helper()
	n := &testNode{t: t, name: name, address: address, dir: t.TempDir()}
	namespace := testNet + "-" + name
	_ = exec.Command("ip", "netns", "delete", namespace).Run() // of a run that was cut
	t.Cleanup(n.remove)
	for _, args := range []string{
		"netns add " + namespace,
		"-n " + testNet + " link add " + name + " type veth peer name eth0 netns " + namespace,
		"-n " + testNet + " link set " + name + " master br0 up",
		"-n " + namespace + " link set lo up",
		"-n " + namespace + " addr add " + address + "/24 dev eth0",
		"-n " + namespace + " link set eth0 up",
	} {
		command(t, "ip", strings.Fields(args)...)
	}
	n.machine = exec.Command("bash", "testdata/machine.sh", namespace, n.dir)
	n.machine.Stderr = os.Stderr
	out, err := n.machine.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := n.machine.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("machine %s: %q, %v", name, line, err)
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", n.machine.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	if n.init, err = strconv.Atoi(strings.TrimSpace(string(children))); err != nil {
		t.Fatal(err)
	}
	images := filepath.Join(n.dir, "data/agent/images")
	if err := os.MkdirAll(images, 0o755); err != nil {
		t.Fatal(err)
	}
	command(t, "cp", filepath.Join(bin, "pause.tar"), images)
	return n
}

// remove ends the machine: nothing of it may be left on the computer.
func (n *testNode) remove() {
	if n.machine != nil && n.machine.Process != nil {
		_ = n.machine.Process.Kill() // its first process, and so all of them, end with it
		_ = n.machine.Wait()
	}
	if n.ended != nil {
		<-n.ended
	}
	if n.t.Failed() {
		log, _ := os.ReadFile(n.log())
		lines := strings.Split(string(log), "\n")
		n.t.Logf("%s said:\n%s", n.name, strings.Join(lines[max(0, len(lines)-60):], "\n"))
	}
	deadline := time.Now().Add(30 * time.Second)
	for n.removeGroups() > 0 {
		if time.Now().After(deadline) {
			n.t.Errorf("cgroups of %s are left", n.name)
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if out, err := exec.Command("ip", "netns", "delete", testNet+"-"+n.name).CombinedOutput(); err != nil {
		n.t.Errorf("%v: %s", err, out)
	}
}

// removeGroups removes the machine's cgroups, and counts those that are left.
func (n *testNode) removeGroups() (left int) {
	roots, _ := filepath.Glob("/sys/fs/cgroup/*/" + testNet + "-" + n.name)
	for _, root := range roots {
		var dirs []string
		_ = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
		for i := len(dirs) - 1; i >= 0; i-- {
			if err := syscall.Rmdir(dirs[i]); err != nil && !errors.Is(err, syscall.ENOENT) {
				left++
			}
		}
	}
	return left
}

func (n *testNode) log() string { return filepath.Join(n.dir, "labkube.log") }

// inside is a command on the machine, in its cgroup.
func (n *testNode) inside(ctx context.Context, args ...string) *exec.Cmd {
	enter := []string{"--target", strconv.Itoa(n.init), "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--",
		"bash", "-c", `for group in /sys/fs/cgroup/*/; do echo $$ >"$group/cgroup.procs"; done; exec "$@"`, "bash"}
	return exec.CommandContext(ctx, "nsenter", append(enter, args...)...)
}

func (n *testNode) try(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := n.inside(ctx, args...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (n *testNode) run(args ...string) string {
	n.t.Helper()
	out, err := n.try(args...)
	if err != nil {
		n.t.Fatalf("%s: %s: %v\n%s", n.name, strings.Join(args, " "), err, out)
	}
	return out
}

// start runs labkube as a server or as an agent, with these lines of configuration.
func (n *testNode) start(bin, role, lines string) {
	n.t.Helper()
	config := filepath.Join(n.dir, "config.yaml")
	text := fmt.Sprintf("node-name: %s\nnode-ip: %s\ndata-dir: %s\nwrite-kubeconfig: %s\n%s", n.name, n.address, filepath.Join(n.dir, "data"), n.kubeconfig(), lines)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		n.t.Fatal(err)
	}
	log, err := os.OpenFile(n.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		n.t.Fatal(err)
	}
	defer log.Close()
	n.labkube = n.inside(context.Background(), "bash", "-c", `echo $$ >/run/labkube.pid; exec "$@"`, "bash", filepath.Join(bin, "labkube"), role, "--config", config)
	n.labkube.Stdout, n.labkube.Stderr = log, log
	if err := n.labkube.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.ended = make(chan error, 1)
	go func(cmd *exec.Cmd, ended chan error) {
		ended <- cmd.Wait()
		close(ended)
	}(n.labkube, n.ended)
}

// ready waits until labkube has said so often that it is.
func (n *testNode) ready(times int) {
	n.t.Helper()
	eventually(n.t, n.name+" is ready", func() (string, error) {
		log, err := os.ReadFile(n.log())
		return strconv.Itoa(strings.Count("\n"+string(log), "\nlabkube: ready\n")), err
	}, func(got string) bool { return got == strconv.Itoa(times) })
}

// stop asks labkube to end, as systemd does.
func (n *testNode) stop() {
	n.t.Helper()
	n.run("bash", "-c", "kill -TERM $(cat /run/labkube.pid)")
	select {
	case err := <-n.ended:
		if err != nil {
			n.t.Errorf("%s: labkube ended with %v", n.name, err)
		}
	case <-time.After(patience):
		n.t.Fatalf("%s: labkube does not stop", n.name)
	}
}

func (n *testNode) kubeconfig() string { return filepath.Join(n.dir, "kubeconfig.yaml") }

// parts are the processes of a part, as the machine numbers them.
func (n *testNode) parts(part string) []string {
	out, _ := n.try("pgrep", "-f", "labkube "+part+" ")
	return strings.Fields(out)
}

// eventually asks until what it hears is what is wanted.
func eventually(t *testing.T, what string, ask func() (string, error), wanted func(string) bool) string {
	t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; <-tick.C {
		got, err := ask()
		if err == nil && wanted(got) {
			return got
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s: %q, %v", what, patience, got, err)
		}
	}
}
