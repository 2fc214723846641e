package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lab/loadtest/analysis"
	"lab/loadtest/plan"
	"lab/loadtest/sample"
)

// TestMain has the test binary be the runner where a test starts it as one.
func TestMain(m *testing.M) {
	if os.Getenv("LAB_TEST_RUNNER") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// runner is a process of the runner.
func runner(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), "LAB_TEST_RUNNER=1")
	return cmd
}

// further starts a generator that takes orders on 127.0.0.2, by a socket that it is
// handed over as systemd does.
func further(t *testing.T, target, secret string) (orders string, process *exec.Cmd) {
	t.Helper()
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	socket, err := listener.File()
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", `LISTEN_PID=$$ exec "$@"`, "sh", os.Args[0], "generate", "--secret-file", file, "--target", target)
	cmd.Env, cmd.ExtraFiles = append(os.Environ(), "LAB_TEST_RUNNER=1", "LISTEN_FDS=1"), []*os.File{socket}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended by itself
		_ = cmd.Wait()
	})
	return listener.Addr().String(), cmd
}

// two is the plan of two generators, of which the second takes orders.
func two(t *testing.T, target http.HandlerFunc) (plan.Plan, *exec.Cmd) {
	t.Helper()
	p := testPlan(t, target)
	p.Hosts = append(p.Hosts, plan.Host{Name: "loadgen2", Roles: []string{"loadgen"}, Sampler: p.Hosts[1].Sampler, CPUs: 2, MemoryMiB: 512})
	orders, process := further(t, p.Target, "of this stack")
	p.Further, p.Secret = []plan.Further{{Host: "loadgen2", Orders: orders}}, "of this stack"
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	return p, process
}

// Two processes offer what one would, the second ends with the run, and the result
// says who took part.
func TestTwoGeneratorsReachTheCap(t *testing.T) {
	var served atomic.Int64
	p, process := two(t, func(http.ResponseWriter, *http.Request) { served.Add(1) })
	dir := t.TempDir()
	out, planFile := filepath.Join(dir, "result.json"), filepath.Join(dir, "plan.json")
	raw, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(planFile, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := runner(t.Context(), "run", "--plan", planFile, "--out", out).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	r := mustRead(t, out)
	if v := analysis.Analyze(r); v.Status != analysis.StatusCapReached || v.Ceiling != ">=100" {
		t.Errorf("status %s, ceiling %s, invalid %v", v.Status, v.Ceiling, v.Invalid)
	}
	if fmt.Sprint(r.Generators) != "[{loadgen 0.5} {loadgen2 0.5}]" {
		t.Errorf("generators %v", r.Generators)
	}
	want := int64(2) // each asks once before the load
	for _, s := range r.Steps {
		want += int64(s.OfferedRPS) // of a second each
		if len(s.Generators) != 2 || s.Generators[0].Host != "loadgen" || s.Generators[1].Host != "loadgen2" || s.Generators[1].CPURatio <= 0 {
			t.Errorf("at %g/s: generators %+v", s.OfferedRPS, s.Generators)
		}
		if s.Generator.CPURatio != max(s.Generators[0].CPURatio, s.Generators[1].CPURatio) {
			t.Errorf("at %g/s: %s is not the busiest of %+v", s.OfferedRPS, s.Generator.Host, s.Generators)
		}
	}
	if got := served.Load(); got != want {
		t.Errorf("the target saw %d requests, want %d", got, want)
	}
	if err := process.Wait(); err != nil {
		t.Errorf("the generator, after the run: %v", err)
	}
	if raw, _ := os.ReadFile(out); bytes.Contains(raw, []byte(p.Secret)) {
		t.Error("the secret is in the result")
	}
}

// A generator that is killed within a step ends the run, which names it and counts
// only what was whole.
func TestAGeneratorThatIsKilledEndsTheRun(t *testing.T) {
	var served atomic.Int64
	var process atomic.Pointer[exec.Cmd]
	p, cmd := two(t, func(http.ResponseWriter, *http.Request) {
		if served.Add(1) == 80 { // 2 of the checks, 50 of the first step, then within the second
			_ = process.Load().Process.Kill()
		}
	})
	process.Store(cmd)
	out := filepath.Join(t.TempDir(), "result.json")
	if err := run(context.Background(), p, out, io.Discard); err != nil {
		t.Fatal(err)
	}
	r := mustRead(t, out)
	if len(r.Steps) != 1 || !strings.HasPrefix(r.Aborted, "load generator loadgen2 at 127.0.0.2:") || !strings.Contains(r.Aborted, "ended within a step, which does not count") {
		t.Errorf("%d steps, aborted %q", len(r.Steps), r.Aborted)
	}
	if v := analysis.Analyze(r); v.Status != analysis.StatusAborted || v.Ceiling != "none" || !strings.Contains(v.Wall, "loadgen2") {
		t.Errorf("status %s, ceiling %s, wall %s", v.Status, v.Ceiling, v.Wall)
	}
}

// No load is sent when a generator is missing. The reason must not read as that of
// a target that is down, which is a measurement.
func TestARunWithoutAllItsGeneratorsSendsNoLoad(t *testing.T) {
	for _, row := range []struct {
		name, want string
		change     func(p *plan.Plan, process *exec.Cmd)
	}{
		{"the secret is wrong", "refuses the secret", func(p *plan.Plan, _ *exec.Cmd) { p.Secret = "of another" }},
		{"it is not there", "can't be reached", func(_ *plan.Plan, process *exec.Cmd) { _ = process.Process.Kill(); _ = process.Wait() }},
	} {
		var served atomic.Int64
		p, process := two(t, func(http.ResponseWriter, *http.Request) { served.Add(1) })
		row.change(&p, process)
		out := filepath.Join(t.TempDir(), "result.json")
		if err := run(context.Background(), p, out, io.Discard); err != nil {
			t.Errorf("%s: %v", row.name, err)
			continue
		}
		r := mustRead(t, out)
		if !strings.HasPrefix(r.Aborted, "no load was sent: load generator loadgen2 at 127.0.0.2:") || !strings.Contains(r.Aborted, row.want) {
			t.Errorf("%s: aborted %q", row.name, r.Aborted)
		}
		if n := served.Load(); n > 1 { // the lead's check
			t.Errorf("%s: the target saw %d requests", row.name, n)
		}
	}
}

// Two real processes find the capacity of a target that knows it: 20 requests at a
// time, of 50 ms, beside which a busy machine's delays are small.
func TestTwoGeneratorsFindAKnownCapacity(t *testing.T) {
	if testing.Short() {
		t.Skip("offers load for half a minute")
	}
	slots := make(chan struct{}, 20)
	var busy, served atomic.Int64
	p, _ := two(t, func(http.ResponseWriter, *http.Request) {
		slots <- struct{}{}
		start := time.Now()
		time.Sleep(50 * time.Millisecond)
		busy.Add(int64(time.Since(start)))
		served.Add(1)
		<-slots
	})
	p.Scenario.FloorRPS, p.Scenario.CapRPS, p.Scenario.MaxInFlight = 250, 2000, 1000
	p.Scenario.KeepAlive = true
	p.Scenario.ProbeSeconds, p.Scenario.ProbeDiscard, p.Scenario.StepSeconds, p.Scenario.StepDiscard = 1.2, 0.3, 2, 0.5
	out := filepath.Join(t.TempDir(), "result.json")
	var log strings.Builder
	if err := run(context.Background(), p, out, &log); err != nil {
		t.Fatal(err)
	}
	v := analysis.Analyze(mustRead(t, out))
	capacity := 20 * float64(served.Load()) / time.Duration(busy.Load()).Seconds()
	t.Logf("capacity %.1f/s, verdict %s %.1f/s, %v\n%s", capacity, v.Status, v.CeilingRPS, v.Invalid, log.String())
	if v.Status != analysis.StatusFound || v.CeilingRPS < 0.95*capacity || v.CeilingRPS > 1.05*capacity {
		t.Errorf("%s %.1f/s, want found and %.1f/s ± 5 %%", v.Status, v.CeilingRPS, capacity)
	}
}

func TestTheSecretsFileIsPrivate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	for _, row := range []struct {
		name, text, want string
		mode             os.FileMode
	}{
		{"it is", "s\n", "", 0o600},
		{"others may read it", "s\n", "chmod 600", 0o644},
		{"it is empty", "\n", "must hold the secret", 0o600},
	} {
		if err := os.WriteFile(file, []byte(row.text), row.mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, row.mode); err != nil {
			t.Fatal(err)
		}
		secret, err := readSecret(file)
		if row.want == "" && (err != nil || secret != "s") || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%s: %q, %v; want %q", row.name, secret, err, row.want)
		}
	}
}

// The quickest of the last readings knows a host's clock best.
func TestAHostsClockIsReadOffTheQuickestReading(t *testing.T) {
	w := &watcher{plan: plan.Plan{Token: "secret"}, client: http.DefaultClient, readings: map[string][]sample.Reading{},
		first: map[string]sample.Reading{}, clocks: map[string]sample.Reading{}}
	server := httptest.NewServer(sample.Handler(sample.Reader{Root: idleMachine(t)}, "secret"))
	t.Cleanup(server.Close)
	now := time.Now()
	h := plan.Host{Name: "loadgen2", Sampler: strings.TrimPrefix(server.URL, "http://")}
	for _, row := range []struct {
		name string
		best sample.Reading
		kept bool
	}{
		{"a slower one before", sample.Reading{At: now, RoundTrip: time.Minute, ClockOffset: time.Hour}, false},
		{"a quicker one before", sample.Reading{At: now, RoundTrip: 1, ClockOffset: time.Hour}, true},
		{"a quicker one, long ago", sample.Reading{At: now.Add(-time.Minute), RoundTrip: 1, ClockOffset: time.Hour}, false},
	} {
		w.clocks["loadgen2"] = row.best
		if err := w.read(context.Background(), h); err != nil {
			t.Fatal(err)
		}
		if kept := w.clock("loadgen2") == time.Hour; kept != row.kept {
			t.Errorf("%s: its offset is kept %t, want %t", row.name, kept, row.kept)
		}
	}
}
