package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	stopPatience = 20 * time.Second
	restartFirst = 500 * time.Millisecond // doubled for each early end
	restartMost  = 10 * time.Second
	settled      = time.Minute // a process that ran so long did not end early
)

// process is a part as a child of this one.
type process struct {
	name string
	path string
	args []string
	env  []string
}

// supervisor keeps processes running until it is stopped.
type supervisor struct {
	ctx    context.Context
	cancel context.CancelFunc
	mu     sync.Mutex
	order  []*running
}

type running struct {
	process
	stop context.CancelFunc
	done chan struct{}
}

func newSupervisor(ctx context.Context) *supervisor {
	ctx, cancel := context.WithCancel(ctx)
	return &supervisor{ctx: ctx, cancel: cancel}
}

// keep starts a process, and starts it again whenever it ends.
func (s *supervisor) keep(p process) {
	ctx, stop := context.WithCancel(context.Background()) // ended one by one, not all at once
	r := &running{process: p, stop: stop, done: make(chan struct{})}
	s.mu.Lock()
	s.order = append(s.order, r)
	s.mu.Unlock()
	go func() {
		defer close(r.done)
		for wait := restartFirst; ; wait = min(2*wait, restartMost) {
			began := time.Now()
			err := r.run(ctx)
			if ctx.Err() != nil {
				return
			}
			if time.Since(began) > settled {
				wait = restartFirst
			}
			log.Printf("%s ended (%v); starting it again in %v", p.name, err, wait)
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
		}
	}()
}

// run is one life of the process. When ctx ends it is asked to stop, then killed.
func (r *running) run(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, r.path, r.args...)
	cmd.Env = append(partEnv(os.Environ()), r.env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopPatience
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // never without the supervisor
	out := prefixed(os.Stderr, r.name+": ")
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	return runLocked(cmd)
}

// partEnv is the environment without what systemd gave the supervisor: a part that
// is ready must not say that the node is.
func partEnv(env []string) []string {
	return slices.DeleteFunc(env, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return name == "NOTIFY_SOCKET" || name == "WATCHDOG_PID" || name == "WATCHDOG_USEC"
	})
}

// close stops the processes, the last started first.
func (s *supervisor) close() {
	s.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range slices.Backward(s.order) {
		r.stop()
		<-r.done
	}
}

// prefixed writes whole lines with the part's name, so that one journal tells
// whose they are.
func prefixed(to io.Writer, prefix string) io.WriteCloser {
	r, w := io.Pipe()
	go func() {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			fmt.Fprintf(to, "%s%s\n", prefix, lines.Bytes())
		}
		_, _ = io.Copy(io.Discard, r) // a line that was too long: the part must not block on it
	}()
	return w
}

// beside is a program that came with this one, or is on PATH.
func beside(name string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(self), name)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	path, err = exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is neither beside %s nor on PATH; install it", name, self)
	}
	return path, nil
}

// until asks again and again until there is no error, and returns the last one
// when time or ctx is over, or when it is a refusal.
func until(ctx context.Context, patience, every time.Duration, ask func() error) error {
	deadline := time.Now().Add(patience)
	for {
		err := ask()
		if err == nil || errors.Is(err, errRefused) || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(every):
		}
	}
}
