package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"lab/servicetest"
)

// The test's own program is pause, when it is told so.
func TestMain(m *testing.M) {
	if os.Getenv("PAUSE") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// As the first process of a namespace, as in a pod.
func TestItReapsOrphansAndEndsWhenAsked(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a process namespace takes root")
	}
	pause := exec.Command(os.Args[0])
	pause.Env = append(os.Environ(), "PAUSE=1")
	pause.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	if err := pause.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	defer func() {
		if !ended {
			_ = pause.Process.Kill()
			_ = pause.Wait()
		}
	}()
	orphan := leave(t, pause.Process.Pid)
	if err := syscall.Kill(orphan, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := servicetest.Until(func() error {
		if left := children(t, pause.Process.Pid); left != "" {
			return errors.New("not reaped: " + left)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	// It has reaped, so it listens: before that, the request would end it with
	// another status.
	if err := pause.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ended = true
	if err := pause.Wait(); err != nil {
		t.Errorf("it ended with %v, want status 0", err)
	}
}

// leave has a shell in the namespace leave a child behind, which its first process
// gets.
func leave(t *testing.T, first int) (orphan int) {
	t.Helper()
	shell := exec.Command("nsenter", fmt.Sprintf("--pid=/proc/%d/ns/pid", first), "sh", "-c", "sleep 1000 >/dev/null 2>&1 & exit 0")
	if out, err := shell.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := servicetest.Until(func() error {
		_, err := fmt.Sscan(children(t, first), &orphan)
		return err
	}); err != nil {
		t.Fatalf("the first process did not get the orphan: %v", err)
	}
	return orphan
}

// children are a process's, the unreaped too.
func children(t *testing.T, pid int) string {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil || len(tasks) == 0 {
		t.Fatalf("process %d has no tasks: %v", pid, err)
	}
	var all []string
	for _, task := range tasks {
		raw, err := os.ReadFile(task)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESRCH) { // a thread may end
			t.Fatal(err)
		}
		all = append(all, strings.Fields(string(raw))...)
	}
	return strings.Join(all, " ")
}
