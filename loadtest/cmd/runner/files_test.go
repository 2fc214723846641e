package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"lab/loadtest/analysis"
)

func TestPrepareKnowsWhatAnEarlierStartLeft(t *testing.T) {
	step := []analysis.Step{{Phase: "bracket", OfferedRPS: 1, Seconds: 1}}
	for _, row := range []struct {
		name             string
		result, partial  string // run ids
		finished         bool
		left, mustBeGone []string
	}{
		{"nothing", "", "", false, nil, nil},
		{"this run's result", "run1", "", true, []string{"result.json"}, nil},
		{"another run's result", "run0", "", false, nil, []string{"result.json"}},
		{"this run's steps", "", "run1", false, []string{"result.interrupted.json"}, []string{"result.partial.json"}},
		{"another run's steps", "", "run0", false, nil, []string{"result.partial.json", "result.interrupted.json"}},
	} {
		dir := t.TempDir()
		out := filepath.Join(dir, "result.json")
		for file, id := range map[string]string{out: row.result, beside(out, ".partial.json"): row.partial} {
			if id == "" {
				continue
			}
			if err := write(file, analysis.Result{Version: 1, RunID: id, Steps: step}); err != nil {
				t.Fatal(err)
			}
		}
		finished, err := prepare(out, "run1", io.Discard)
		if err != nil || finished != row.finished {
			t.Errorf("%s: finished %t, %v; want %t", row.name, finished, err, row.finished)
		}
		for _, name := range row.left {
			if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
				t.Errorf("%s: %v", row.name, err)
			}
		}
		for _, name := range row.mustBeGone {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				t.Errorf("%s: %s is still there", row.name, name)
			}
		}
	}
}

func TestResultOfALongRunIsSmall(t *testing.T) {
	awkward := 1.0 / 3
	u := analysis.HostUse{Host: "database", Roles: []string{"database", "replica"}, Samples: 11, CPUs: 0.5,
		CPURatio: awkward, CPUSeconds: 10 * awkward, StealRatio: awkward / 1e3, ThrottledRatio: awkward, PSICPURatio: awkward,
		MemoryRatio: awkward, DiskRatio: awkward, PSIIORatio: awkward, NetMbps: 1000 * awkward, LinkMbps: 1000}
	s := analysis.Step{Phase: "bracket", OfferedRPS: 1230, Seconds: 11, Arrivals: 13530, Completed: 13530, Failed: 10, Dropped: 10,
		Errors: map[string]int64{"timeout": 10, "status-503": 10}, P50Ms: awkward, P95Ms: awkward, P99Ms: awkward, SendP95Ms: awkward,
		SchedLagP50Ms: awkward, MeanMs: awkward, InFlightMean: awkward, BacklogSlopeRPS: awkward, Generator: u}
	use := analysis.ServiceUse{Host: "database", Service: "postgres", Samples: 11, Connections: awkward, ConnectionsMax: 20, ConnectionLimit: 97, Waiting: awkward,
		ThreadRatio: awkward, HitRatio: awkward, Waits: map[string]float64{"Lock": awkward, "IO": awkward, "LWLock": awkward}}
	for range 5 {
		s.Hosts, s.Services = append(s.Hosts, u), append(s.Services, use)
		s.Services[0].Statements = append(s.Services[0].Statements, analysis.Statement{ID: "-1234567890123456789", Calls: 12345, MeanMs: awkward, ShareRatio: awkward})
	}
	s.Kubernetes = &analysis.KubernetesUse{Host: "server", Samples: 11, Distribution: "k3s"}
	for _, name := range []string{"web", "worker", "beat"} {
		s.Kubernetes.Autoscalers = append(s.Kubernetes.Autoscalers, analysis.AutoscalerUse{Name: name, Workload: name, Replicas: awkward, FirstReplicas: 2, LastReplicas: 6, DesiredReplicas: 6, MaxReplicas: 6, LoadRatio: awkward, LimitedRatio: awkward})
		s.Kubernetes.Workloads = append(s.Kubernetes.Workloads, analysis.WorkloadUse{Name: name, Serves: true, Pods: awkward, ReadyPods: awkward, ThrottledRatio: awkward, Pending: map[string]float64{"Insufficient cpu": awkward}})
		s.Kubernetes.Nodes = append(s.Kubernetes.Nodes, analysis.NodeUse{Name: name, Pods: awkward, NotReadyRatio: awkward})
	}
	s.Blocks, s.BlockSeconds = []int64{6150, 6150, 6150, 6150, 6150, 6150, 6150, 6150, 6150, 6150, 6150}, 5
	var r analysis.Result
	for range 80 { // three runs of a slow search
		r.Steps = append(r.Steps, rounded(s))
	}
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if len(raw) > 512<<10 {
		t.Errorf("%d bytes, want at most 512 KiB", len(raw))
	}
	t.Log(len(raw), "bytes")
	if k := r.Steps[0].Kubernetes; k.Workloads[0].Pending["Insufficient cpu"] != 0.3333 || k.Autoscalers[2].LoadRatio != 0.3333 || k.Nodes[1].Pods != 0.3333 {
		t.Errorf("%+v is not rounded", k)
	}
	if s.Hosts[0].CPURatio != awkward || s.Kubernetes.Nodes[0].Pods != awkward || s.Kubernetes.Workloads[0].Pending["Insufficient cpu"] != awkward {
		t.Error("rounding changed its argument")
	}
}

func TestRound(t *testing.T) {
	for _, row := range []struct{ in, want float64 }{
		{0, 0}, {-1, -1}, {1.0 / 3, 0.3333}, {123456.7, 123500}, {-0.000012345678, -0.00001235}, {math.NaN(), 0}, {math.Inf(1), 0},
	} {
		if got := round(row.in); fmt.Sprintf("%.10g", got) != fmt.Sprintf("%.10g", row.want) {
			t.Errorf("round(%g) = %g, want %g", row.in, got, row.want)
		}
	}
}
