package analysis

import (
	"slices"
	"strings"
	"testing"
)

// flat is a step that a system with that capacity, of requests per second, made.
func flat(offered, capacity float64) Step {
	const seconds = 20
	completed := min(offered, capacity)
	s := Step{
		Phase: PhaseRamp, OfferedRPS: offered, Seconds: seconds,
		Arrivals: int64(offered * seconds), Completed: int64(completed * seconds),
		P50Ms: 10, P95Ms: 20, P99Ms: 30, MeanMs: 10, InFlightMean: completed * 0.010,
	}
	if offered > capacity {
		s.BacklogSlopeRPS, s.P95Ms = offered-capacity, 4000
	}
	return s
}

// ramp is a search that met a capacity, with one app host at that CPU.
func ramp(capacity float64, change func(*Step)) Result {
	r := Result{Version: 1, RunID: "r", Scenario: DefaultScenario()}
	r.Scenario.CapRPS = 600
	for _, share := range []float64{0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3} {
		s := flat(share*capacity, capacity)
		s.Hosts = []HostUse{{Host: "app", Roles: []string{"app"}, Samples: 16, CPUs: 1, CPURatio: min(share, 1) * 0.97, CPUSeconds: 20 * min(share, 1) * 0.97, PSICPURatio: -1}}
		s.Generator = HostUse{Host: "loadgen", Samples: 16, CPUs: 1, CPURatio: 0.3}
		if change != nil {
			change(&s)
		}
		r.Steps = append(r.Steps, s)
	}
	return r
}

// Trap 1: the two-node write-up's ramp to 200/s completed 28,015 of 28,050
// arrivals in 300 s. Its mean, 93/s, is not a ceiling: the cap was reached.
func TestTrap1MeanRateIsNoCeiling(t *testing.T) {
	r := Result{Version: 1, RunID: "r", Scenario: DefaultScenario()}
	r.Scenario.CapRPS, r.Scenario.SLOP95Ms = 200, 500
	for _, stage := range []struct {
		offered, p95Ms float64
	}{{15, 220}, {35, 240}, {75, 300}, {150, 700}, {200, 1200}} {
		s := flat(stage.offered, 1e9)
		s.P95Ms = stage.p95Ms
		r.Steps = append(r.Steps, s)
	}
	v := Analyze(r)
	if v.Status != StatusCapReached || v.Ceiling != ">=200" || v.SLOCapacity != "75" {
		t.Errorf("%s, ceiling %s, SLO capacity %s; want cap-reached, >=200 and 75", v.Status, v.Ceiling, v.SLOCapacity)
	}
}

// Trap 2: more CPU seconds than the cap has are impossible: the work was not
// fixed or the cap is another one.
func TestTrap2UtilisationLaw(t *testing.T) {
	v := Analyze(ramp(100, func(s *Step) { s.Hosts[0].CPUSeconds = 20 * 1.5 }))
	if v.Valid || v.Ceiling != "none" || !strings.Contains(strings.Join(v.Invalid, " "), "impossible") {
		t.Errorf("ceiling %s, valid %t, %v", v.Ceiling, v.Valid, v.Invalid)
	}
}

// A request of the first step that needs more CPU than the ceiling leaves it is said of a
// host, and not of a node: there the first step's CPU is not its pods' alone.
func TestTrap2UtilisationLawOfTheFirstStep(t *testing.T) {
	said := func(node bool) bool {
		r := ramp(100, func(s *Step) {
			if node {
				s.Kubernetes = &KubernetesUse{Samples: 10, Distribution: "k3s", Nodes: []NodeUse{{Name: "app", Pods: 4}}}
			}
		})
		r.Steps[0].Hosts[0].CPUSeconds = 20 * 0.97 // at 60 % of the ceiling
		return slices.ContainsFunc(Analyze(r).Findings, func(f Finding) bool { return f.Rule == "utilisation-law" })
	}
	if !said(false) || said(true) {
		t.Errorf("utilisation-law said of a host: %t, of a node: %t; want true, false", said(false), said(true))
	}
}

// Trap 3: rows of another scenario are marked.
func TestTrap3AnotherScenarioIsMarked(t *testing.T) {
	a := DefaultScenario()
	b := a
	b.CapRPS++
	if ScenarioDigest(a) == ScenarioDigest(b) || ScenarioDigest(a) != ScenarioDigest(DefaultScenario()) {
		t.Error("a scenario's digest is that of its content")
	}
	table := Table([]TableRow{{Step: "before", ScenarioDigest: "x"}, {Step: "after", ScenarioDigest: "y"}})
	if !strings.Contains(table, "| before * |") || strings.Contains(table, "after *") || !strings.Contains(table, "don't compare") {
		t.Error(table)
	}
}

// Trap 4: the p95 below the knee varies twofold: it must not move the ceiling.
func TestTrap4LatencyDoesNotMoveTheCeiling(t *testing.T) {
	a, b := Analyze(ramp(100, nil)), Analyze(ramp(100, func(s *Step) { s.P95Ms *= 2; s.P99Ms *= 2 }))
	if a.CeilingRPS != b.CeilingRPS || a.CeilingRPS != 100 {
		t.Errorf("ceilings %g and %g, want 100", a.CeilingRPS, b.CeilingRPS)
	}
}

// Trap 5: a target that is down has no latency: no data, not 0 ms inside the SLO.
func TestTrap5NoSamplesAreNoData(t *testing.T) {
	r := Result{Version: 1, RunID: "r", Scenario: DefaultScenario()}
	s := flat(10, 100)
	s.Failed, s.Completed, s.P50Ms, s.P95Ms, s.P99Ms = s.Completed, 0, 0, 0, 0
	r.Steps = []Step{s, s}
	v := Analyze(r)
	if v.Status != StatusTargetDown || v.Ceiling != "none" || v.SLOCapacity != "none" || Row("x", v).KneeP95 != "none" {
		t.Errorf("%+v", v)
	}
}

// Trap 6: a generator that ends well proves nothing: the result is checked.
func TestTrap6ResultIsChecked(t *testing.T) {
	for name, change := range map[string]func(*Result){
		"no step":                     func(r *Result) { r.Steps = nil },
		"another version":             func(r *Result) { r.Version = 2 },
		"no run id":                   func(r *Result) { r.RunID = "" },
		"a latency without an answer": func(r *Result) { r.Steps[0].Completed = 0 },
		"answers without a latency":   func(r *Result) { r.Steps[0].P95Ms = 0 },
	} {
		r := ramp(100, nil)
		if err := Validate(r); err != nil {
			t.Fatal(err)
		}
		change(&r)
		if Validate(r) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// Trap 7, of what is in flight at a step's end, is the engine's: its meter's test
// shows that drained answers are credited to no step.

func TestInvalidRunsPrintNoNumber(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*Step)
		status Status
		reason string
	}{
		{"a busy generator", func(s *Step) { s.Generator.CPURatio = 0.85 }, StatusGeneratorLimited, "load generator CPU at 85%"},
		{"a full generator link", func(s *Step) { s.Generator.LinkMbps, s.Generator.NetMbps = 100, 90 }, StatusGeneratorLimited, "NIC at 90%"},
		{"steal", func(s *Step) { s.Hosts[0].StealRatio = 0.2 }, StatusEnvironmentInvalid, "steal on app at 20%"},
		{"other work on the machine", func(s *Step) { s.Hosts[0].ForeignCPURatio = 0.3 }, StatusEnvironmentInvalid, "30% of the CPU under app was used by what is not of the lab"},
		{"Little's law", func(s *Step) { s.InFlightMean = 50 }, StatusEnvironmentInvalid, "Little's law"},
	} {
		v := Analyze(ramp(100, row.change))
		if v.Status != row.status || v.Ceiling != "none" || v.Valid || !strings.Contains(v.Wall, row.reason) {
			t.Errorf("%s: %s, ceiling %s, %q; want %s, none, %q", row.name, v.Status, v.Ceiling, v.Wall, row.status, row.reason)
		}
	}
	dropping := func(inFlight, cpu float64) Result {
		return ramp(100, func(s *Step) {
			s.Hosts[0].CPURatio = min(s.Hosts[0].CPURatio, cpu)
			if s.OfferedRPS > 100 {
				s.Dropped, s.InFlightMax = s.Arrivals-s.Completed, inFlight
			}
		})
	}
	v := Analyze(dropping(400, 0.6))
	if v.Status != StatusGeneratorLimited || v.Ceiling != "none" || v.Valid || !strings.Contains(v.Wall, "load generator dropped 200 of 2200 arrivals at 110 req/s with at most 400 of 1000 in flight and no host hot") {
		t.Errorf("drops with few in flight: %s, ceiling %s, %q", v.Status, v.Ceiling, v.Wall)
	}
	for name, r := range map[string]Result{"a full cap": dropping(960, 0.6), "a hot host": dropping(400, 1)} {
		if v := Analyze(r); v.Status != StatusFound || v.Ceiling != "100" || !v.Valid {
			t.Errorf("drops with %s are the target's: %s, ceiling %s, %v", name, v.Status, v.Ceiling, v.Invalid)
		}
	}
	// A weak generator fails now here, now there: its steps contradict each other.
	r := ramp(100, func(s *Step) { s.Generator.CPURatio = 0.95 })
	r.Steps[0].Dropped, r.Steps[1].Dropped = 100, 100
	if v := Analyze(r); v.Status != StatusGeneratorLimited || !strings.HasPrefix(v.Wall, "none: load generator CPU at 95%") {
		t.Errorf("steps of a weak generator that contradict each other: %s, %q", v.Status, v.Wall)
	}
	r = ramp(100, nil)
	r.Aborted = "the runner was told to stop"
	if v := Analyze(r); v.Status != StatusAborted || v.Ceiling != "none" || !strings.Contains(v.Wall, "told to stop") {
		t.Errorf("aborted: %+v", v)
	}
}

// A step a few percent past the ceiling can be sustained, within the counting
// noise of few arrivals, and end before its p95 shows the growing queue.
func TestSLOCapacityIsNotAboveTheCeiling(t *testing.T) {
	r := Result{Version: 1, RunID: "r", Scenario: DefaultScenario()}
	for _, offered := range []float64{30, 40, 50, 59, 66, 72, 80} {
		r.Steps = append(r.Steps, flat(offered, 56))
	}
	past := &r.Steps[3]
	past.P95Ms, past.BacklogSlopeRPS = 300, 2
	if ok, why := Sustained(*past); !ok {
		t.Fatalf("the step at 59/s was not sustained: %s", why)
	}
	if v := Analyze(r); v.Ceiling != "56" || v.SLOCapacity != "56" || v.SLOCapacityRPS != v.CeilingRPS {
		t.Errorf("%s: ceiling %s, SLO capacity %s, want 56 and 56", v.Status, v.Ceiling, v.SLOCapacity)
	}
}
