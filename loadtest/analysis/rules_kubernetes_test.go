package analysis

import (
	"slices"
	"strings"
	"testing"
)

// nodesAt are hosts of a cluster with that CPU, the first one its server.
func nodesAt(cpu ...float64) []HostUse {
	names := []string{"server", "agent-1", "agent-2", "agent-3"}
	var all []HostUse
	for i, ratio := range cpu {
		role := "agent"
		if i == 0 {
			role = "server"
		}
		all = append(all, HostUse{Host: names[i], Roles: []string{role}, Samples: 10, CPUs: 2, CPURatio: ratio, PSICPURatio: -1, DiskRatio: -1, PSIIORatio: -1})
	}
	return all
}

func databaseAt(cpu float64) HostUse {
	return HostUse{Host: "database", Roles: []string{"database"}, Samples: 10, CPUs: 2, CPURatio: cpu, PSICPURatio: -1, DiskRatio: -1, PSIIORatio: -1}
}

// k3sOf is a cluster of those hosts, with the workload web and its autoscaler, which
// is at its smallest and on target.
func k3sOf(hosts []HostUse) *KubernetesUse {
	u := &KubernetesUse{
		Host: "server", Samples: 10, Distribution: "k3s",
		Workloads:   []WorkloadUse{{Name: "web", Serves: true, Pods: 2, ReadyPods: 2, ThrottledRatio: -1}},
		Autoscalers: []AutoscalerUse{hpa("web", 2, 6, 1)},
	}
	for _, h := range hosts {
		if slices.Contains([]string{"server", "agent"}, h.Roles[0]) {
			u.Nodes = append(u.Nodes, NodeUse{Name: h.Host, Pods: 4})
		}
	}
	return u
}

// hpa is an autoscaler at rest, with a load of so much of its target.
func hpa(workload string, replicas, most int, load float64) AutoscalerUse {
	return AutoscalerUse{Name: workload, Workload: workload, Replicas: float64(replicas), FirstReplicas: replicas, LastReplicas: replicas, DesiredReplicas: replicas, MaxReplicas: most, LoadRatio: load}
}

// The clusters of the published tables, a row each, and of what they announce as
// their next experiment. Figures that a write-up does not give are filled in as idle.
func TestWallsOfTheWriteUpsClusters(t *testing.T) {
	const unattributed = "unattributed: no watched resource at its limit"
	loadlab := func(replicas, most int, load float64) func(*KubernetesUse) {
		return func(u *KubernetesUse) {
			u.Workloads = []WorkloadUse{{Name: "loadlab", Serves: true, Pods: float64(replicas), ReadyPods: float64(replicas), ThrottledRatio: -1}}
			u.Autoscalers = []AutoscalerUse{hpa("loadlab", replicas, most, load)}
		}
	}
	atMaximum := func(u *KubernetesUse) { u.Autoscalers[0] = hpa("web", 6, 6, 1.8) }
	for _, row := range []struct {
		name    string
		hosts   []HostUse
		change  func(*KubernetesUse)
		want    string
		finding string // among the secondary ones; "" for none at all
	}{
		{"three nodes with an autoscaler that is content, the database is hot", append(nodesAt(0.62, 0.62, 0.62), databaseAt(0.95)), func(u *KubernetesUse) { u.Autoscalers[0] = hpa("web", 6, 6, 0.71) }, "database CPU at 95%", ""},
		{"connections kept", append(nodesAt(0.98, 0.98, 0.98), databaseAt(0.65)), nil, "k3s nodes at 98%", ""},
		{"queries rewritten", append(nodesAt(0.98, 0.98, 0.98), databaseAt(0.28)), nil, "k3s nodes at 98%", ""},
		{"pushed to the breaking point, with the autoscaler at its maximum", append(nodesAt(0.98, 0.98, 0.98), databaseAt(0.02)), atMaximum, "k3s nodes at 98%", "HPA web at max (6) while over target"},
		{"nodes resized", append(nodesAt(0.98, 0.98, 0.98), databaseAt(0.01)), atMaximum, "k3s nodes at 98%", "HPA web at max (6) while over target"},
		{"two nodes pegged", nodesAt(0.98, 0.98), loadlab(10, 10, 9), "k3s nodes at 98%", "HPA loadlab at max (10) while over target"},
		{"the maximum ends it, the nodes have room", nodesAt(0.55, 0.55), loadlab(10, 10, 9), "HPA loadlab at max (10) while over target", ""},
		{"the maximum raised: no node takes more pods", nodesAt(0.8, 0.8), func(u *KubernetesUse) {
			loadlab(40, 50, 2)(u)
			u.Workloads[0].Pending = map[string]float64{"Insufficient cpu": 7}
		}, "7 loadlab pods Pending: Insufficient cpu", ""},
		{"a node with the database's primary beside three that serve", func() []HostUse {
			all := nodesAt(0.6, 0.99, 0.5, 0.55)
			all[1].Roles = append(all[1].Roles, "database")
			return all
		}(), nil, "one node (agent-1) saturated at 99% while others idled (median 55%)", ""},
		{"the database is no longer the limit", nodesAt(0.4, 0.99, 0.45, 0.35), nil, "one node (agent-1) saturated at 99% while others idled (median 40%)", ""},
		{"all three serving nodes at 95-98 %", append(nodesAt(0.95, 0.97, 0.98), databaseAt(0.5)), nil, "k3s nodes at 97%", ""},
		{"a web pod is killed at its memory limit", nodesAt(0.5, 0.5, 0.5), func(u *KubernetesUse) { u.Workloads[0].OOMKills, u.Workloads[0].Restarts = 1, 1 }, "web pods out of memory (1 killed)", "web containers restarted (1)"},

		{"two of three nodes are the cluster", nodesAt(0.5, 0.98, 0.98), nil, "k3s nodes at 98%", ""},
		{"another distribution has its own name", nodesAt(0.98, 0.98), func(u *KubernetesUse) { u.Distribution = "labkube" }, "labkube nodes at 98%", ""},
		{"throttled by their limit", nodesAt(0.6, 0.6), func(u *KubernetesUse) { u.Workloads[0].ThrottledRatio = 0.6 }, "web pods throttled by their CPU limit in 60% of periods", ""},
		{"throttled a little", nodesAt(0.6, 0.6), func(u *KubernetesUse) { u.Workloads[0].ThrottledRatio = 0.2 }, unattributed, ""},
		{"throttled pods on hot nodes", nodesAt(0.98, 0.98), func(u *KubernetesUse) { u.Workloads[0].ThrottledRatio = 0.6 }, "k3s nodes at 98%", "web pods throttled by their CPU limit in 60% of periods"},
		{"no node comes before the maximum", nodesAt(0.6, 0.6), func(u *KubernetesUse) {
			atMaximum(u)
			u.Workloads[0].Pending = map[string]float64{"Insufficient memory": 1}
		}, "1 web pod Pending: Insufficient memory", "HPA web at max (6) while over target"},
		{"the maximum comes before throttling", nodesAt(0.6, 0.6), func(u *KubernetesUse) {
			atMaximum(u)
			u.Workloads[0].ThrottledRatio = 0.9
		}, "HPA web at max (6) while over target", "web pods throttled by their CPU limit in 90% of periods"},
		{"the maximum comes before pods that are throttled all the time", nodesAt(0.6, 0.6), func(u *KubernetesUse) { // once they were equal
			atMaximum(u)
			u.Workloads[0].ThrottledRatio = 1
		}, "HPA web at max (6) while over target", "web pods throttled by their CPU limit in 100% of periods"},
		{"pending for a moment", nodesAt(0.6, 0.6), func(u *KubernetesUse) { u.Workloads[0].Pending = map[string]float64{"Insufficient cpu": 0.2} }, unattributed, ""},
		{"at its maximum within the autoscaler's tolerance", nodesAt(0.6, 0.6), func(u *KubernetesUse) { u.Autoscalers[0] = hpa("web", 6, 6, 1.05) }, unattributed, ""},
		{"over its target below its maximum", nodesAt(0.6, 0.6), func(u *KubernetesUse) { u.Autoscalers[0] = hpa("web", 5, 6, 1.8) }, unattributed, ""},
		{"it said itself that it wanted more", nodesAt(0.6, 0.6), func(u *KubernetesUse) {
			u.Autoscalers[0] = hpa("web", 6, 6, -1)
			u.Autoscalers[0].LimitedRatio = 0.8
		}, "HPA web at max (6) while over target", ""},
		{"a queue's workers are no wall of requests", nodesAt(0.6, 0.6), func(u *KubernetesUse) {
			u.Workloads = append(u.Workloads, WorkloadUse{Name: "worker", Pods: 3, ReadyPods: 3, ThrottledRatio: 0.7})
			u.Autoscalers = append(u.Autoscalers, hpa("worker", 3, 3, 2))
		}, unattributed, "HPA worker at max (3) while over target"},
		{"no samples of the cluster are not an idle one", nodesAt(0.6, 0.6), func(u *KubernetesUse) {
			atMaximum(u)
			u.Samples = 0
		}, unattributed + " (no samples of the cluster)", ""},
		{"an autoscaler that knows no load", nodesAt(0.6, 0.6), func(u *KubernetesUse) { u.Autoscalers[0].Problem = "FailedGetResourceMetric" }, unattributed, "HPA web does not scale: FailedGetResourceMetric"},
		{"the number of pods still moved", nodesAt(0.6, 0.6), func(u *KubernetesUse) { u.Autoscalers[0].LastReplicas = 4 }, unattributed, "HPA web went from 2 to 4 pods in the steps at the ceiling"},
		{"an image that is not there", nodesAt(0.6, 0.6), func(u *KubernetesUse) { u.Workloads[0].Waiting = map[string]float64{"ImagePullBackOff": 2} }, unattributed, "2 web pods wait: ImagePullBackOff"},
		{"pods that fail their probe", nodesAt(0.6, 0.6), func(u *KubernetesUse) { u.Workloads[0].Pods, u.Workloads[0].Pending = 5, map[string]float64{"x": 0.4} }, unattributed, "3 web pods not Ready"},
		{"a node short of memory", nodesAt(0.6, 0.6), func(u *KubernetesUse) { u.Nodes[1].Conditions = []string{"MemoryPressure"} }, unattributed, "node agent-1 reports MemoryPressure"},
	} {
		s := flat(100, 100)
		s.Hosts, s.Kubernetes = row.hosts, k3sOf(row.hosts)
		if row.change != nil {
			row.change(s.Kubernetes)
		}
		checkWall(t, row.name, s, row.want, row.finding)
	}
}

// The row of the table whose cap was reached: nothing is the wall, also while an
// autoscaler has all its pods.
func TestTheCapIsReachedOnACluster(t *testing.T) {
	s := flat(600, 1000)
	s.Hosts = append(nodesAt(0.7, 0.7, 0.7), databaseAt(0.02))
	s.Kubernetes = k3sOf(s.Hosts)
	s.Kubernetes.Autoscalers[0] = hpa("web", 6, 6, 1.8)
	got, findings := wall(Result{Scenario: DefaultScenario()}, Verdict{Status: StatusCapReached}, one(s))
	if got != "nothing (hit the scenario's 600 cap)" || len(findings) != 1 || findings[0].Rule != "hpa-at-max" {
		t.Errorf("%q, %+v", got, findings)
	}
}

// Of the kill that the host counted too, the name is said first.
func TestAKilledPodComesBeforeItsHost(t *testing.T) {
	s := flat(100, 100)
	s.Hosts = nodesAt(0.5, 0.5)
	s.Hosts[1].OOMKills = 1
	s.Kubernetes = k3sOf(s.Hosts)
	s.Kubernetes.Workloads[0].OOMKills = 1
	got, findings := wall(Result{Scenario: DefaultScenario()}, Verdict{Status: StatusFound}, one(s))
	if got != "web pods out of memory (1 killed)" || len(findings) != 1 || findings[0].Sentence != "agent-1 out of memory (1 killed)" {
		t.Errorf("%q, %+v", got, findings)
	}
}

// A full pool of connections is a symptom of pods that may not compute.
func TestThrottledPodsComeBeforeAFullPool(t *testing.T) {
	s := flat(100, 100)
	s.Hosts = nodesAt(0.5, 0.5)
	s.Kubernetes = k3sOf(s.Hosts)
	s.Kubernetes.Workloads[0].ThrottledRatio = 0.4
	s.Services = []ServiceUse{{Host: "edge", Service: ServiceApp, Samples: 9, Connections: 20, ConnectionLimit: 20, Waiting: 35, ThreadRatio: -1, HitRatio: -1}}
	got, findings := wall(Result{Scenario: DefaultScenario()}, Verdict{Status: StatusFound}, one(s))
	if got != "web pods throttled by their CPU limit in 40% of periods" || len(findings) != 1 || findings[0].Rule != "pool" {
		t.Errorf("%q, %+v", got, findings)
	}
}

// The steps near the ceiling are taken together: medians of what lasts, sums of
// what happened. One without data is no idle one.
func TestClusterOverSeveralSteps(t *testing.T) {
	step := func(throttled, pending float64, restarts int64) Step {
		s := flat(100, 100)
		s.Hosts = nodesAt(0.5)
		s.Kubernetes = k3sOf(s.Hosts)
		s.Kubernetes.Workloads[0].ThrottledRatio, s.Kubernetes.Workloads[0].Restarts = throttled, restarts
		if pending > 0 {
			s.Kubernetes.Workloads[0].Pending = map[string]float64{"Insufficient cpu": pending}
		}
		return s
	}
	without := flat(100, 100)
	without.Kubernetes = &KubernetesUse{}
	groups := podGroups([]Step{step(0.1, 0, 1), without, step(0.5, 3, 0), step(0.3, 2, 2)})
	unknown := podGroups([]Step{step(-1, 0, 0), step(0.5, 0, 0), step(-1, 0, 0)})
	if none := podGroups([]Step{step(-1, 0, 0)}); unknown[0].ThrottledRatio != 0.5 || none[0].ThrottledRatio != -1 {
		t.Errorf("throttled %g and %g; want what is known, and -1", unknown[0].ThrottledRatio, none[0].ThrottledRatio)
	}
	if len(groups) != 1 || groups[0].ThrottledRatio != 0.3 || groups[0].Pending["Insufficient cpu"] != 2 || groups[0].Restarts != 3 || !groups[0].Serves {
		t.Errorf("%+v", groups)
	}
	moved := step(0, 0, 0)
	moved.Kubernetes.Autoscalers[0] = hpa("web", 6, 6, 3)
	if all := autoscalers([]Step{step(0, 0, 0), moved, moved}); len(all) != 1 || all[0].FirstReplicas != 2 || all[0].LastReplicas != 6 || all[0].Replicas != 6 || !atMax(all[0]) {
		t.Errorf("%+v", all)
	}
}

// The figures behind the sentence of one hot node say how the pods were spread.
func TestAHotNodeTellsItsPods(t *testing.T) {
	s := flat(100, 100)
	s.Hosts = nodesAt(0.4, 0.99, 0.4)
	s.Kubernetes = k3sOf(s.Hosts)
	s.Kubernetes.Nodes[1].Pods = 9
	found := busy([]Step{s})
	if len(found) != 1 || found[0].Figures["pods"] != 9 || found[0].Figures["podsOfNodesMedian"] != 4 {
		t.Errorf("%+v", found)
	}
}

// A node that is NotReady or gone in any step takes the number away: before and
// after it there are two systems.
func TestALostNodeIsInvalid(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*KubernetesUse)
		want   string
	}{
		{"not ready for a moment", func(u *KubernetesUse) { u.Nodes[1].NotReadyRatio = 0.1 }, "none: node agent-1 was NotReady at 120 req/s"},
		{"gone", func(u *KubernetesUse) { u.Nodes = u.Nodes[:1] }, "none: node agent-1 was gone at 120 req/s"},
		{"no data is no loss", func(u *KubernetesUse) { *u = KubernetesUse{} }, "app CPU at 97%"},
	} {
		v := Analyze(ramp(100, func(s *Step) {
			s.Kubernetes = k3sOf(nodesAt(0.5, 0.5))
			if s.OfferedRPS > 115 { // two steps: it is said once
				row.change(s.Kubernetes)
			}
		}))
		invalid := strings.HasPrefix(row.want, "none")
		if v.Wall != row.want || invalid && (v.Status != StatusEnvironmentInvalid || v.Ceiling != "none" || len(v.Invalid) != 1) || !invalid && v.Status != StatusFound {
			t.Errorf("%s: %s, ceiling %s, %q; want %q", row.name, v.Status, v.Ceiling, v.Wall, row.want)
		}
	}
}

func TestAnAutoscalerAtWork(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*KubernetesUse)
		want   bool
	}{
		{"at rest", func(*KubernetesUse) {}, false},
		{"it added pods", func(u *KubernetesUse) { u.Autoscalers[0].FirstReplicas = 1 }, true},
		{"it wants more", func(u *KubernetesUse) { u.Autoscalers[0].DesiredReplicas = 4 }, true},
		{"it will want more", func(u *KubernetesUse) { u.Autoscalers[0].LoadRatio = 1.5 }, true},
		{"it may not want more", func(u *KubernetesUse) { u.Autoscalers[0] = hpa("web", 6, 6, 1.5) }, false},
		{"no node takes more", func(u *KubernetesUse) {
			u.Autoscalers[0].LoadRatio = 1.5
			u.Workloads[0].Pending = map[string]float64{"Insufficient cpu": 1}
		}, false},
		{"its pods are starting", func(u *KubernetesUse) { u.Workloads[0].StartingPods = 1 }, true},
		{"it has no metric", func(u *KubernetesUse) {
			u.Autoscalers[0].DesiredReplicas, u.Autoscalers[0].Problem = 0, "FailedGetResourceMetric"
		}, false},
		{"it scales what serves nobody", func(u *KubernetesUse) { u.Workloads[0].Serves, u.Autoscalers[0].DesiredReplicas = false, 4 }, false},
		{"no data", func(u *KubernetesUse) { u.Autoscalers[0].DesiredReplicas, u.Samples = 4, 0 }, false},
	} {
		s := flat(100, 100)
		s.Kubernetes = k3sOf(nodesAt(0.5))
		row.change(s.Kubernetes)
		if got := scaling(s); got != row.want {
			t.Errorf("%s: %t, want %t", row.name, got, row.want)
		}
	}
	if scaling(flat(100, 100)) {
		t.Error("without a cluster there is no autoscaler")
	}
}

// The overload lasts settleSeconds, and on while the autoscaler is at work, but not
// for ever.
func TestTheSearchWaitsForTheAutoscaler(t *testing.T) {
	sc := DefaultScenario()
	sc.WarmupSeconds, sc.SettleSeconds = 0, 60
	for _, row := range []struct {
		name   string
		atWork int // held steps in which it still scales
		settle float64
		want   int // steps held before the ramp: of 24 s each, after 46 s of the bracket's overload
	}{
		{"at rest", 0, 60, 1},
		{"at work for three steps", 3, 60, 4},
		{"at work without an end", 99, 60, 6},
		{"asked not to wait", 99, 0, 0},
	} {
		sc.SettleSeconds = row.settle
		var history []Step
		for _, rate := range []float64{40, 60, 90, 135, 202} {
			s := flat(rate, 100)
			s.Phase = PhaseBracket
			history = append(history, s)
		}
		held := 0
		for held < 20 {
			p, done := Next(sc, history)
			if done || p.Phase != PhaseHold {
				break
			}
			held++
			s := flat(p.OfferedRPS, 100)
			s.Phase, s.Kubernetes = p.Phase, k3sOf(nodesAt(0.5))
			if held <= row.atWork {
				s.Kubernetes.Autoscalers[0].DesiredReplicas = 4
			}
			history = append(history, s)
		}
		if held != row.want {
			t.Errorf("%s: %d steps held, want %d", row.name, held, row.want)
		}
	}
}

// The explanation shows what was watched of the cluster beside its threshold.
func TestExplainShowsTheCluster(t *testing.T) {
	e := Explain(ramp(100, func(s *Step) {
		s.Kubernetes = k3sOf(nodesAt(0.5))
		s.Kubernetes.Autoscalers[0] = hpa("web", 6, 6, 2)
		s.Kubernetes.Workloads[0].ThrottledRatio = 0.1
	}))
	for _, want := range []Watched{{"web", "HPA replicas", 1, 1, true}, {"web", "pods throttled", 0.1, podThrottled, false}} {
		if !slices.Contains(e.Watched, want) {
			t.Errorf("%+v is not in %+v", want, e.Watched)
		}
	}
}
