package sample

import (
	"maps"
	"slices"

	"lab/loadtest/analysis"
	"lab/loadtest/plan"
)

// UseKubernetes is what the cluster that a host's sampler watches did: over a
// window's readings of every host in their order, by host, and what happened over
// that host's readings since the step began. nil: that host watches none.
func UseKubernetes(h plan.Host, windows map[string][]Counters, since []Counters) *analysis.KubernetesUse {
	if !slices.Contains(h.Services, analysis.ServiceKubernetes) {
		return nil
	}
	u := &analysis.KubernetesUse{Host: h.Name}
	answers := clusters(windows[h.Name])
	if len(answers) == 0 {
		return u
	}
	u.Samples, u.Distribution = len(answers), answers[len(answers)-1].Distribution
	u.Autoscalers = useAutoscalers(answers)
	u.Workloads = useWorkloads(answers, throttledPods(windows), happenings(clusters(since)))
	u.Nodes = useNodes(answers)
	return u
}

// clusters are the readings in which the cluster answered.
func clusters(readings []Counters) []ClusterCounters {
	var all []ClusterCounters
	for _, r := range readings {
		for _, s := range r.Services {
			if s.Kind == analysis.ServiceKubernetes && s.Cluster != nil {
				all = append(all, *s.Cluster)
			}
		}
	}
	return all
}

// byName are the states of everything with a name, and the names in order.
func byName[T any](answers []ClusterCounters, list func(ClusterCounters) []T, name func(T) string) (names []string, all map[string][]T) {
	all = map[string][]T{}
	for _, answer := range answers {
		for _, item := range list(answer) {
			all[name(item)] = append(all[name(item)], item)
		}
	}
	return slices.Sorted(maps.Keys(all)), all
}

func useAutoscalers(answers []ClusterCounters) []analysis.AutoscalerUse {
	names, all := byName(answers, func(c ClusterCounters) []AutoscalerCounters { return c.Autoscalers }, func(a AutoscalerCounters) string { return a.Name })
	var uses []analysis.AutoscalerUse
	for _, name := range names {
		states := all[name]
		first, last := states[0], states[len(states)-1]
		u := analysis.AutoscalerUse{
			Name: name, Workload: last.Workload, FirstReplicas: first.Current, LastReplicas: last.Current,
			DesiredReplicas: last.Desired, MaxReplicas: last.Max, Problem: last.Problem, LoadRatio: -1,
		}
		loads, known := 0.0, 0.0
		for _, a := range states {
			u.Replicas += float64(a.Current) / float64(len(states))
			if a.Limited {
				u.LimitedRatio += 1 / float64(len(states))
			}
			if a.Load >= 0 {
				loads, known = loads+a.Load, known+1
			}
		}
		if known > 0 {
			u.LoadRatio = loads / known
		}
		uses = append(uses, u)
	}
	return uses
}

// useWorkloads means the states over all answers: a workload that was not there in
// one of them had no pod then.
func useWorkloads(answers []ClusterCounters, throttled map[string]periods, since map[string]totals) []analysis.WorkloadUse {
	names, all := byName(answers, func(c ClusterCounters) []WorkloadCounters { return c.Workloads }, func(w WorkloadCounters) string { return w.Name })
	share := 1 / float64(len(answers))
	var uses []analysis.WorkloadUse
	for _, name := range names {
		states := all[name]
		last := states[len(states)-1]
		u := analysis.WorkloadUse{
			Name: name, Serves: last.Serves, StartingPods: last.Starting, Pending: map[string]float64{}, Waiting: map[string]float64{},
			Restarts: since[name].restarts, OOMKills: since[name].kills, ThrottledRatio: -1,
		}
		pods := map[string]bool{}
		for _, w := range states {
			u.Pods += share * float64(w.Pods)
			u.ReadyPods += share * float64(w.Ready)
			for reason, n := range w.Pending {
				u.Pending[reason] += share * float64(n)
			}
			for reason, n := range w.Waiting {
				u.Waiting[reason] += share * float64(n)
			}
			for _, uid := range w.UIDs {
				pods[uid] = true
			}
		}
		u.ThrottledRatio = together(pods, throttled)
		uses = append(uses, u)
	}
	return uses
}

func useNodes(answers []ClusterCounters) []analysis.NodeUse {
	names, all := byName(answers, func(c ClusterCounters) []NodeCounters { return c.Nodes }, func(n NodeCounters) string { return n.Name })
	share := 1 / float64(len(answers))
	var uses []analysis.NodeUse
	for _, name := range names {
		u := analysis.NodeUse{Name: name}
		ready := 0
		for _, n := range all[name] {
			u.Pods += share * float64(n.Pods)
			u.Conditions = append(u.Conditions, n.Conditions...)
			if n.Ready {
				ready++
			}
		}
		slices.Sort(u.Conditions)
		u.Conditions = slices.Compact(u.Conditions)
		u.NotReadyRatio = 1 - float64(ready)/float64(len(answers)) // also while it was gone
		uses = append(uses, u)
	}
	return uses
}

// happenings are each workload's restarts and kills from the first to the last
// answer. A count that fell began anew in between.
func happenings(answers []ClusterCounters) map[string]totals {
	since := map[string]totals{}
	if len(answers) == 0 {
		return since
	}
	before := map[string]totals{}
	for _, w := range answers[0].Workloads {
		before[w.Name] = totals{w.Restarts, w.OOMKills}
	}
	for _, w := range answers[len(answers)-1].Workloads {
		b := before[w.Name]
		since[w.Name] = totals{max(0, w.Restarts-b.restarts), max(0, w.OOMKills-b.kills)}
	}
	return since
}

// periods are CPU periods of pods, and how many of them were throttled.
type periods struct{ all, throttled int64 }

func (p periods) ratio() float64 { return ratio(float64(p.throttled), float64(p.all)) }

// throttledPods are the periods of every pod's most throttled container in a window,
// by the pod's uid: what limits a pod is not to be thinned by an idle container.
func throttledPods(windows map[string][]Counters) map[string]periods {
	pods := map[string]periods{}
	for _, host := range slices.Sorted(maps.Keys(windows)) {
		window := windows[host]
		if len(window) < 2 {
			continue
		}
		before := map[string]PodCounters{}
		for _, c := range window[0].Pods {
			before[c.Pod+"/"+c.Container] = c
		}
		for _, c := range window[len(window)-1].Pods {
			b := before[c.Pod+"/"+c.Container]
			p := periods{max(0, c.Periods-b.Periods), max(0, c.Throttled-b.Throttled)}
			if most, ok := pods[c.Pod]; p.all > 0 && (!ok || p.ratio() > most.ratio()) {
				pods[c.Pod] = p
			}
		}
	}
	return pods
}

// together is the throttled share of the pods' periods; −1 when none of them has a
// limit, or its host no sampler.
func together(pods map[string]bool, throttled map[string]periods) float64 {
	var sum periods
	for uid := range pods {
		sum.all += throttled[uid].all
		sum.throttled += throttled[uid].throttled
	}
	if sum.all == 0 {
		return -1
	}
	return sum.ratio()
}
