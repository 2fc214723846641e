package sample

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"lab/loadtest/analysis"
	"lab/loadtest/plan"
)

var clusterHost = plan.Host{Name: "server", Services: []string{analysis.ServiceKubernetes}}

// answering is a reading in which the cluster said so.
func answering(c ClusterCounters, pods ...PodCounters) Counters {
	return Counters{Services: []ServiceCounters{{Kind: analysis.ServiceKubernetes, Cluster: &c}}, Pods: pods}
}

func TestUseOfACluster(t *testing.T) {
	state := func(current, ready int, load float64, pending int, nodes ...NodeCounters) ClusterCounters {
		web := WorkloadCounters{Name: "web", Serves: true, Pods: ready + pending, Ready: ready, UIDs: []string{"u1", "u2"}, Restarts: int64(10 * ready), OOMKills: int64(ready)}
		if pending > 0 {
			web.Pending = map[string]int{"Insufficient cpu": pending}
		}
		return ClusterCounters{
			Distribution: "k3s", Workloads: []WorkloadCounters{web}, Nodes: nodes,
			Autoscalers: []AutoscalerCounters{{Name: "web", Workload: "web", Current: current, Desired: 6, Max: 6, Load: load, Limited: load > 2}},
		}
	}
	server := NodeCounters{Name: "server", Ready: true, Pods: 4}
	agent := NodeCounters{Name: "agent-1", Ready: true, Pods: 2}
	pressed := NodeCounters{Name: "agent-1", Ready: false, Pods: 2, Conditions: []string{"MemoryPressure"}}
	first := answering(state(2, 2, -1, 0, server, agent), PodCounters{"u1", "a", 100, 10}, PodCounters{"u1", "idle", 1000, 0})
	second := answering(state(4, 2, 2, 2, server, pressed))
	third := answering(state(6, 2, 3, 2, server, agent))
	fourth := answering(state(6, 2, 1, 0, server), PodCounters{"u1", "a", 200, 70}, PodCounters{"u1", "idle", 1900, 0}) // agent-1 is gone
	elsewhere := []Counters{
		{Pods: []PodCounters{{"u2", "b", 50, 50}, {"other", "c", 0, 0}}},
		{Pods: []PodCounters{{"u2", "b", 250, 90}, {"other", "c", 900, 900}}},
	}
	begun := answering(ClusterCounters{Workloads: []WorkloadCounters{{Name: "web", Restarts: 15, OOMKills: 1}}})

	u := UseKubernetes(clusterHost, map[string][]Counters{"server": {first, second, third, fourth}, "agent-1": elsewhere}, []Counters{{}, begun, first, fourth, {}})
	want := &analysis.KubernetesUse{
		Host: "server", Samples: 4, Distribution: "k3s",
		Autoscalers: []analysis.AutoscalerUse{{Name: "web", Workload: "web", Replicas: 4.5, FirstReplicas: 2, LastReplicas: 6, DesiredReplicas: 6, MaxReplicas: 6, LoadRatio: 2, LimitedRatio: 0.25}},
		Workloads: []analysis.WorkloadUse{{
			Name: "web", Serves: true, Pods: 3, ReadyPods: 2, Pending: map[string]float64{"Insufficient cpu": 1},
			Restarts: 5, OOMKills: 1,
			ThrottledRatio: (60 + 40) / 300.0, // 60 of u1's 100 and 40 of u2's 200 periods; its idle container does not thin them
		}},
		Nodes: []analysis.NodeUse{
			{Name: "agent-1", Pods: 1.5, NotReadyRatio: 0.5, Conditions: []string{"MemoryPressure"}},
			{Name: "server", Pods: 4},
		},
	}
	if diff := cmp.Diff(want, u, cmpopts.EquateEmpty(), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A cluster without an answer in the window has no samples, a host without a
// watching sampler no cluster, and pods without a limit, or on a host without a
// sampler, are not known to be unthrottled.
func TestNoDataOfAClusterIsNotIdle(t *testing.T) {
	if u := UseKubernetes(plan.Host{Name: "server", Services: []string{"nginx"}}, nil, nil); u != nil {
		t.Errorf("%+v; want no cluster", u)
	}
	if u := UseKubernetes(clusterHost, map[string][]Counters{"server": {{}, {}}}, []Counters{{}, {}}); u == nil || u.Samples != 0 {
		t.Errorf("%+v; want no samples", u)
	}
	c := answering(ClusterCounters{Workloads: []WorkloadCounters{{Name: "web", UIDs: []string{"u1"}, Restarts: 3}}})
	u := UseKubernetes(clusterHost, map[string][]Counters{"server": {c, c}}, []Counters{{}, c})
	if u.Workloads[0].ThrottledRatio != -1 || u.Workloads[0].Restarts != 0 {
		t.Errorf("%+v; want an unknown throttling, and no restart that was not seen to happen", u.Workloads[0])
	}
	for _, s := range UseServices(clusterHost, []Counters{c, c}) {
		t.Errorf("%+v; a cluster is no service", s)
	}
}
