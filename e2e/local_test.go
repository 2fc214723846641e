package e2e

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lab/loadtest/analysis"
)

// lab is the config of the test's stack: five small machines, or seven with the
// cluster's, on a network of their own, beside whatever stack the machine's owner
// has up.
type lab struct {
	cluster               bool // two nodes, and a row without them before
	appCPUs, databaseCPUs float64
	step                  string
	floorRPS, capRPS      int
	arrivals              int    // a ramp step holds
	endpoints             string // YAML flow sequence
}

const (
	singleStep = "without the cluster"

	fixedWork = "[{name: work, path: '/work?ms=10', weight: 1}]"
	lightWork = "[{name: work, path: '/work?ms=1', weight: 1}]"
	reads     = "[{name: items, path: /api/items, weight: 1}]"
)

func (l lab) config() string {
	nodes, pods, single := "", "", ""
	if l.cluster {
		nodes = `
      - {name: server, kind: nspawn, roles: [server], cpus: 0.6, memoryMiB: 1024}
      - {name: agent, kind: nspawn, roles: [agent], cpus: 0.4, memoryMiB: 768}
    cluster: {distribution: labkube}`
		pods = `
    poolSize: 8
    web: {minReplicas: 2, maxReplicas: 3, requestCpuMilli: 40, limitCpuMilli: 200, memoryMiB: 64}
    worker: {minReplicas: 1, maxReplicas: 2, requestCpuMilli: 20, limitCpuMilli: 100, memoryMiB: 64}`
		single = `
    singleStep: ` + singleStep
	}
	return fmt.Sprintf(`config:
  lab:infra:
    network: {name: %s, subnet: 10.78.0.0/24, loopback: 127.78.0.0/24}
    hosts:
      - {name: app, kind: nspawn, roles: [app], cpus: %g, memoryMiB: 512}
      - {name: database, kind: nspawn, roles: [database], cpus: %g, memoryMiB: 512}
      - {name: cache, kind: nspawn, roles: [cache], cpus: 0.2, memoryMiB: 256}
      - {name: edge, kind: nspawn, roles: [edge], cpus: 0.3, memoryMiB: 256}
      - {name: loadgen, kind: nspawn, roles: [loadgen], cpus: 0.6, memoryMiB: 512}%s
  lab:workloads:
    connMaxAgeSeconds: 0%s
  lab:loadtest:%s
    step: %q
    scenario: {floorRps: %d, capRps: %d, probeSeconds: 6, stepSeconds: 12, stepArrivals: %d, maxInFlight: 100, repeats: 1, warmupSeconds: 0, settleSeconds: 0, endpoints: %s}
`, network, l.appCPUs, l.databaseCPUs, nodes, pods, single, l.step, l.floorRPS, l.capRPS, l.arrivals, l.endpoints)
}

// TestLocalStack walks one stack from nothing through three walls to nothing.
// The phases depend on each other, so they are one test.
func TestLocalStack(t *testing.T) {
	s := newStack(t)
	kernel := sysctls(t)
	ledger := filepath.Join(s.root, "results", "e2e.jsonl")
	for _, left := range []string{ledger, s.config} { // of a test that was killed
		if err := os.RemoveAll(left); err != nil {
			t.Fatal(err)
		}
	}
	rows := 0 // that the ledger has at the end
	t.Cleanup(func() {
		if out, took, err := s.run("destroy", "--yes", "--skip-preview", "--stack", "e2e"); err != nil {
			t.Errorf("destroy: %v\n%s", err, out)
		} else {
			t.Logf("pulumi destroy: %.1f s", took.Seconds())
		}
		for _, left := range leftovers() {
			t.Errorf("left behind after destroy: %s", left)
		}
		if diff := cmp.Diff(kernel, sysctls(t)); diff != "" {
			t.Errorf("destroy left sysctls changed:\n%s", diff)
		}
		if got := ledgerRows(t, ledger); got != rows {
			t.Errorf("the ledger has %d rows after destroy, want the %d measured", got, rows)
		}
		for _, made := range []string{ledger, s.config} {
			if err := os.Remove(made); err != nil {
				t.Error(err)
			}
		}
	})

	// Both rows end at the scenario's cap: the walls come below, on fewer machines.
	cluster := lab{cluster: true, appCPUs: 0.5, databaseCPUs: 0.3, step: "on the cluster", floorRPS: 8, capRPS: 12, arrivals: 100, endpoints: lightWork}
	s.write(cluster.config())
	out := s.shell("make up STACK=e2e") // the README's command
	got := s.outputs()
	t.Logf("%s\n%s", cluster.step, got.Table)
	for _, row := range []string{singleStep, cluster.step} {
		if !strings.Contains(out, "| "+row+" | >=12 | nothing") {
			t.Errorf("make up prints no row %q with a ceiling >=12 and no wall:\n%s", row, out)
		}
	}
	if got.CeilingStatus != "cap-reached" || servingPods(got.Result.Steps) < 2 {
		t.Errorf("on the cluster: status %q, wall %q, invalid %v; want cap-reached, with two ready pods that serve", got.CeilingStatus, got.Wall, got.Result.Invalid)
	}
	log, took := s.must("up", "--yes", "--skip-preview", "--stack", "e2e")
	t.Logf("unchanged up with a cluster: %.1f s", took.Seconds())
	if diff := cmp.Diff([]string(nil), changed(log)); diff != "" {
		t.Errorf("a second up of an unchanged stack with a cluster changes something:\n%s\n%s", diff, log)
	}
	s.checked()
	// The README changes a setting of the pods: they are rolled out.
	stop := visit(got.Endpoints.URL+"/work?ms=1", 50*time.Millisecond)
	s.documented(ledger, 2)
	if sent, failures := stop(); len(failures) > 0 {
		t.Errorf("%d of %d requests failed while pods were rolled out:\n%s", len(failures), sent, strings.Join(failures, "\n"))
	} else {
		t.Logf("none of %d requests failed while pods were rolled out", sent)
	}

	// Without the cluster and its machines. 10 ms of work a request: the rest of a
	// request, which gets cheaper with the rate, is a tenth of it.
	app := lab{appCPUs: 0.5, databaseCPUs: 0.3, step: "fixed work on a capped app", floorRPS: 16, capRPS: 300, arrivals: 400, endpoints: fixedWork}
	got, _ = s.up(app.config())
	t.Logf("%s\n%s", app.step, got.Table)
	if got.CeilingStatus != "found" || !strings.HasPrefix(got.Wall, "app CPU at ") {
		t.Fatalf("with app capped: status %q, wall %q, invalid %v; want found, app CPU", got.CeilingStatus, got.Wall, got.Result.Invalid)
	}
	perRequest := got.Result.CPUSecondsPerRequest["app"]
	want := app.appCPUs / perRequest
	t.Logf("ceiling %.1f req/s; cap ÷ CPU seconds per request = %.2f ÷ %.5f = %.1f", got.Result.CeilingRPS, app.appCPUs, perRequest, want)
	if off := got.Result.CeilingRPS/want - 1; !(math.Abs(off) <= 0.05) {
		t.Errorf("ceiling %.1f is %+.1f %% off cap ÷ CPU seconds per request (%.1f), want within 5 %%", got.Result.CeilingRPS, 100*off, want)
	}
	// The work is fixed: it does not shrink when it is contended. On a machine that
	// others use too, minutes apart, the same work differs by a tenth.
	before := cpuSecondsPerRequest(got, "app", 0.6*got.Result.CeilingRPS, 0.95*got.Result.CeilingRPS)
	if ratio := perRequest / before; !(ratio > 0.75 && ratio < 1.25) {
		t.Errorf("a request took %.5f CPU seconds at the ceiling and %.5f below it", perRequest, before)
	}

	log, took = s.must("up", "--yes", "--skip-preview", "--stack", "e2e")
	t.Logf("unchanged up: %.1f s", took.Seconds())
	if diff := cmp.Diff([]string(nil), changed(log)); diff != "" {
		t.Errorf("a second up of an unchanged stack changes something:\n%s\n%s", diff, log)
	}

	// A connection is a process of the database. What one costs differs sixfold between
	// computers (8 to 46 ms of CPU), so the floor is far below the ceiling of a quick one.
	database := lab{appCPUs: 0.5, databaseCPUs: 0.25, step: "a connection per request, database capped lower", floorRPS: 3, capRPS: 300, arrivals: 100, endpoints: reads}
	got, log = s.up(database.config())
	if diff := cmp.Diff([]string{"database", "ledger", "load", "run"}, changed(log)); diff != "" {
		t.Errorf("another CPU cap and another scenario change (-want +got):\n%s\n%s", diff, log)
	}
	t.Logf("%s\n%s", database.step, got.Table)
	if got.CeilingStatus != "found" || !strings.HasPrefix(got.Wall, "database CPU at ") {
		t.Errorf("with database capped: status %q, wall %q, invalid %v; want found, database CPU", got.CeilingStatus, got.Wall, got.Result.Invalid)
	}

	if got := ledgerRows(t, ledger); got != 5 {
		t.Errorf("the ledger has %d rows, want 5", got)
	}
	idle := database // with work so light that any computer reaches the cap
	idle.step, idle.floorRPS, idle.capRPS, idle.endpoints = "the scenario's cap below the ceiling", 8, 12, lightWork
	rows = s.faults(idle, ledger, 5)
}

// cpuSecondsPerRequest is what a request cost a host in the ramp's steps between
// two rates: below the ceiling, so that it says nothing of the ceiling yet, and
// not far below, where a request costs more (its wakeups are shared with none).
func cpuSecondsPerRequest(o outputs, host string, fromRPS, toRPS float64) float64 {
	seconds, completed := 0.0, 0.0
	for _, s := range o.Result.Steps {
		if s.Phase != analysis.PhaseRamp || s.OfferedRPS < fromRPS || s.OfferedRPS > toRPS {
			continue
		}
		for _, h := range s.Hosts {
			if h.Host == host {
				seconds += h.CPUSeconds
				completed += float64(s.Completed)
			}
		}
	}
	return seconds / completed
}

// servingPods is how many pods a Service of the cluster led to, ready, in the mean
// of the last step that was sampled there.
func servingPods(steps []analysis.Step) float64 {
	pods := 0.0
	for _, s := range steps {
		if s.Kubernetes == nil || s.Kubernetes.Samples == 0 {
			continue
		}
		pods = 0
		for _, w := range s.Kubernetes.Workloads {
			if w.Serves {
				pods += w.ReadyPods
			}
		}
	}
	return pods
}

func ledgerRows(t *testing.T, path string) int {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	}
	return strings.Count(string(raw), "\n")
}
