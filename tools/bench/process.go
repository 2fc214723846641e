package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const targetKind = "target"

// use is what a process used over its whole life, its start included.
type use struct {
	CPUSeconds float64 `json:"cpuSeconds"`
	RSSMiB     float64 `json:"rssMiB"` // largest
}

// run waits for a command and gives its stdout and what it used. Its RSS is read
// while it lives: the kernel's own account of a child begins with the RSS of the
// parent that it was forked from.
func run(ctx context.Context, argv []string) ([]byte, use, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		return nil, use{}, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var u use
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			u.RSSMiB = max(u.RSSMiB, peakRSSMiB(cmd.Process.Pid))
		case err := <-ended:
			if err != nil {
				return nil, u, fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), errors.Join(err, ctx.Err()), bytes.TrimSpace(stderr.Bytes()))
			}
			u.CPUSeconds = cpuSeconds(cmd.ProcessState.SysUsage().(*syscall.Rusage))
			return stdout.Bytes(), u, nil
		}
	}
}

// peakRSSMiB is 0 for a process that has ended.
func peakRSSMiB(pid int) float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	return parsePeakRSS(status)
}

func parsePeakRSS(status []byte) float64 {
	for line := range strings.Lines(string(status)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmHWM:" {
			kiB, _ := strconv.ParseFloat(f[1], 64) // the kernel writes a number
			return kiB / 1024
		}
	}
	return 0
}

// served is the target's process.
type served struct {
	url   string
	cmd   *exec.Cmd
	stdin io.Closer
}

// startTarget starts this program as the target. It gets a SIGKILL if this process
// dies: frozen, it would not notice that its stdin ended.
func startTarget(self string) (*served, error) {
	cmd := exec.Command(self, targetKind)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	stdin, err1 := cmd.StdinPipe()
	stdout, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		return nil, fmt.Errorf("start the target: %w", err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		_ = stdin.Close()
		return nil, fmt.Errorf("start the target: %w", errors.Join(err, cmd.Wait()))
	}
	return &served{strings.TrimSpace(line), cmd, stdin}, nil
}

func (s *served) stop() error {
	_ = s.cmd.Process.Signal(syscall.SIGCONT) // in case it is frozen; it may have ended
	return errors.Join(s.stdin.Close(), s.cmd.Wait())
}

func (s *served) seen() (seen, error) {
	var v seen
	response, err := http.Get(s.url + "/seen")
	if err != nil {
		return v, err
	}
	defer response.Body.Close()
	return v, json.NewDecoder(response.Body).Decode(&v)
}

// freeze stops the target's process after a while, for a while.
func (s *served) freeze(ctx context.Context, after, length time.Duration) error {
	if !sleep(ctx, after) {
		return ctx.Err()
	}
	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	sleep(ctx, length)
	return errors.Join(s.cmd.Process.Signal(syscall.SIGCONT), ctx.Err())
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// ticks is the machine's CPU time so far.
type ticks struct{ busy, all float64 }

func machineTicks() (ticks, error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return ticks{}, err
	}
	return parseTicks(string(stat))
}

// parseTicks reads the first line of /proc/stat: user nice system idle iowait irq
// softirq steal, then guest times that user and nice hold already.
func parseTicks(stat string) (ticks, error) {
	line, _, _ := strings.Cut(stat, "\n")
	f := strings.Fields(line)
	if len(f) < 9 || f[0] != "cpu" {
		return ticks{}, fmt.Errorf("/proc/stat begins with %q", line)
	}
	var t ticks
	for i, field := range f[1:9] {
		n, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return ticks{}, fmt.Errorf("/proc/stat: %w", err)
		}
		t.all += n
		if i != 3 && i != 4 { // idle, iowait
			t.busy += n
		}
	}
	return t, nil
}

// foreignRatio is the part of the machine's CPU time between two looks that was
// used by others, or stolen, when own CPU seconds of the elapsed ones were ours.
func foreignRatio(from, to ticks, elapsed time.Duration, cpus int, own float64) float64 {
	if to.all <= from.all || elapsed <= 0 {
		return 0
	}
	return max(0, (to.busy-from.busy)/(to.all-from.all)-own/(elapsed.Seconds()*float64(cpus)))
}
