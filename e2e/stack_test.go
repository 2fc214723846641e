// Package e2e brings real stacks up on this machine and takes them down again.
package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lab/loadtest/analysis"
)

// network names everything the stack leaves on this machine: the network
// namespace, and, as a prefix, the machines' cgroups and mounts.
const network = "lab-e2e"

// lockedBuffer may be read while a command writes to it.
type lockedBuffer struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.String()
}

// stack drives bin/pulumi on one stack with a backend and a config of its own.
type stack struct {
	t      *testing.T
	root   string
	config string
	env    []string
}

// outputs are the stack outputs that the test reads.
type outputs struct {
	Ceiling       string `json:"ceiling"`
	CeilingStatus string `json:"ceilingStatus"`
	Wall          string `json:"wall"`
	Table         string `json:"table"`
	Endpoints     struct {
		URL string `json:"url"` // of the workload, from this computer
	} `json:"endpoints"`
	Result struct {
		analysis.Verdict
		LoadSeconds float64         `json:"loadSeconds"`
		Steps       []analysis.Step `json:"steps"`
	} `json:"result"`
}

func newStack(t *testing.T) *stack {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("the local stack makes machines: run the tests as root (sudo make test)")
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s := &stack{t: t, root: root, config: filepath.Join(root, "Pulumi.e2e.yaml")}
	s.env = append(os.Environ(),
		"PULUMI_BACKEND_URL=file://"+dir,
		"PULUMI_CONFIG_PASSPHRASE=e2e",
		"PULUMI_STACK=e2e",
		"PULUMI_SKIP_CONFIRMATIONS=true",
		"NO_COLOR=1",
	)
	return s
}

// run runs bin/pulumi and returns what it printed and how long it took.
func (s *stack) run(args ...string) (string, time.Duration, error) {
	cmd := exec.Command(filepath.Join(s.root, "bin", "pulumi"), append(args, "--non-interactive")...)
	cmd.Dir, cmd.Env = s.root, s.env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	start := time.Now()
	err := cmd.Run()
	return out.String(), time.Since(start), err
}

func (s *stack) must(args ...string) (string, time.Duration) {
	s.t.Helper()
	out, took, err := s.run(args...)
	if err != nil {
		s.t.Fatalf("pulumi %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	s.t.Logf("pulumi %s: %.1f s", args[0], took.Seconds())
	return out, took
}

// shell runs a command line of the documentation as a reader would.
func (s *stack) shell(line string) string {
	s.t.Helper()
	cmd := exec.Command("bash", "-euc", line)
	cmd.Dir, cmd.Env = s.root, s.env
	start := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s: %v\n%s", line, err, out)
	}
	s.t.Logf("%s: %.1f s", line, time.Since(start).Seconds())
	return string(out)
}

var changedLine = regexp.MustCompile(`(?m)^\s*\S+\s+(?:command|random|kubernetes):\S+\s+(\S+)\s+(?:created|updated|replaced|deleted)`)

// changed are the resources that an up's log says were touched, sorted.
func changed(log string) []string {
	var names []string
	for _, match := range changedLine.FindAllStringSubmatch(log, -1) {
		names = append(names, match[1])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// up writes the config and brings the stack to it.
func (s *stack) up(config string) (outputs, string) {
	s.t.Helper()
	s.write(config)
	log, _ := s.must("up", "--yes", "--skip-preview", "--stack", "e2e")
	return s.outputs(), log
}

// write writes the stack's config.
func (s *stack) write(config string) {
	s.t.Helper()
	// Pulumi has written the salt of the passphrase there.
	old, err := os.ReadFile(s.config)
	if err != nil && !os.IsNotExist(err) {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(string(old)) {
		if strings.HasPrefix(line, "encryptionsalt:") {
			config = line + config
		}
	}
	if err := os.WriteFile(s.config, []byte(config), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stack) outputs() outputs {
	s.t.Helper()
	cmd := exec.Command(filepath.Join(s.root, "bin", "pulumi"), "stack", "output", "--json", "--show-secrets", "--stack", "e2e")
	cmd.Dir, cmd.Env, cmd.Stderr = s.root, s.env, os.Stderr
	raw, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("pulumi stack output: %v", err)
	}
	var o outputs
	if err := json.Unmarshal(raw, &o); err != nil {
		s.t.Fatalf("stack outputs: %v\n%s", err, raw)
	}
	return o
}

// visit asks for a URL, one request each interval, until it is stopped. An answer
// that is not 200 is a failure.
func visit(url string, interval time.Duration) (stop func() (sent int, failures []string)) {
	client := &http.Client{Timeout: 10 * time.Second}
	var sent int
	var failures []string
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		var requests sync.WaitGroup
		var mu sync.Mutex
		ticks := time.NewTicker(interval)
		defer ticks.Stop()
		for {
			select {
			case <-end:
				requests.Wait()
				return
			case <-ticks.C:
			}
			sent++
			requests.Go(func() {
				start := time.Now()
				var status string
				answer, err := client.Get(url)
				if err != nil {
					status = err.Error()
				} else {
					status = answer.Status
					_ = answer.Body.Close()
				}
				if status != "200 OK" {
					mu.Lock()
					defer mu.Unlock()
					failures = append(failures, fmt.Sprintf("%s after %.1f s: %s", start.Format(time.TimeOnly), time.Since(start).Seconds(), status))
				}
			})
		}
	}()
	return func() (int, []string) {
		close(end)
		<-ended
		return sent, failures
	}
}

// leftovers lists what of the stack is still on this machine: processes,
// mounts, cgroups and the network namespace.
func leftovers() []string {
	var found []string
	if _, err := os.Stat("/run/netns/" + network); err == nil {
		found = append(found, "network namespace "+network)
	}
	mounts, _ := os.ReadFile("/proc/self/mounts")
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, network) {
			found = append(found, "mount "+strings.TrimSpace(line))
		}
	}
	for _, depth := range []string{"*", "*/*", "*/*/*", "*/*/*/*"} {
		groups, _ := filepath.Glob(filepath.Join("/sys/fs/cgroup", depth, network+"*"))
		for _, g := range groups {
			found = append(found, "cgroup "+g)
		}
	}
	processes, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range processes {
		raw, _ := os.ReadFile(p)
		line := strings.TrimSpace(strings.ReplaceAll(string(raw), "\x00", " "))
		if strings.Contains(line, network) && !strings.Contains(line, "go test") {
			found = append(found, "process "+p+": "+line)
		}
	}
	return found
}

// sysctls are the kernel settings that a lab could change in passing.
func sysctls(t *testing.T) map[string]string {
	t.Helper()
	values := map[string]string{}
	for _, dir := range []string{"/proc/sys/net/ipv4/*", "/proc/sys/vm/*", "/proc/sys/kernel/panic*", "/proc/sys/net/core/*"} {
		files, _ := filepath.Glob(dir)
		for _, f := range files {
			if raw, err := os.ReadFile(f); err == nil {
				values[f] = string(raw)
			}
		}
	}
	return values
}
