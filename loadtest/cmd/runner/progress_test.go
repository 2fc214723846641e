package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lab/loadtest/analysis"
)

// What a user reads during a run says from the start how long it may take, and with
// each step how much of it is done.
func TestTheProgressSaysHowMuchIsDone(t *testing.T) {
	sc := analysis.DefaultScenario()
	sc.Repeats = 3
	if got, want := outlook(sc), "search of up to 600 req/s: at most 30:00 min of load in 3 runs, and less as soon as the ceiling is known"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	r := analysis.Result{Version: 1, Scenario: sc}
	clock := timing{sc: sc}
	var shares, runs []string
	for {
		p, done := analysis.Next(sc, r.Steps)
		if done {
			break
		}
		if clock.next(p, r.LoadSeconds) {
			runs = append(runs, clock.runs(r))
		}
		window := p.Seconds - p.DiscardSeconds
		arrivals, completed := int64(p.OfferedRPS*window), int64(min(p.OfferedRPS, 200)*window)
		r.Steps = append(r.Steps, analysis.Step{Run: p.Run, Phase: p.Phase, OfferedRPS: p.OfferedRPS, Seconds: window,
			Arrivals: arrivals, Completed: completed, Dropped: arrivals - completed, P50Ms: 5, P95Ms: 5, P99Ms: 5, InFlightMax: float64(sc.MaxInFlight)})
		r.LoadSeconds += p.Seconds
		shares = append(shares, clock.share(r.LoadSeconds))
	}
	if shares[0] != "0:10 of at most 30:00 min" {
		t.Errorf("after the first step: %q", shares[0])
	}
	if len(runs) != 2 || !strings.HasPrefix(runs[0], "run 1 of 3: ceiling 200 so far, about ") || !strings.HasPrefix(runs[1], "run 2 of 3: ceiling 200 so far, about ") {
		t.Errorf("between the runs: %q", runs)
	}
	// At the end the expectation is what it took.
	took := minutes(r.LoadSeconds)
	if i := slices.IndexFunc(shares, func(s string) bool { return strings.Contains(s, "of about") }); i < 0 || !strings.HasPrefix(shares[len(shares)-1], took+" of about ") {
		t.Errorf("shares %q, took %s", shares, took)
	}
}

func TestOutlookOfASchedule(t *testing.T) {
	sc := analysis.DefaultScenario()
	sc.Kind, sc.Repeats, sc.Stages = analysis.KindRamp, 1, []analysis.Stage{{RPS: 10, Seconds: 60}, {RPS: 50, Seconds: 65}}
	if diff := cmp.Diff("ramp of up to 50 req/s: at most 2:05 min of load", outlook(sc)); diff != "" {
		t.Error(diff)
	}
}

// How many pods there are belongs to what a step offered them.
func TestTheProgressTellsThePods(t *testing.T) {
	s := analysis.Step{Phase: "hold", OfferedRPS: 100, Seconds: 10, Arrivals: 1000, Completed: 1000, P95Ms: 5, Kubernetes: &analysis.KubernetesUse{
		Autoscalers: []analysis.AutoscalerUse{{Name: "web", Workload: "web", LastReplicas: 4, MaxReplicas: 6}}}}
	if got, want := progress(s), "step hold 100 req/s: completed 100.0, p95 5.0 ms, no host sampled, web 4 of 6 pods"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
