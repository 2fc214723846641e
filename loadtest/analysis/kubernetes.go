package analysis

import "slices"

// ServiceKubernetes is the kind of the sampler's reader that watches a cluster.
const ServiceKubernetes = "kubernetes"

// KubernetesUse is what a cluster said of itself during one step's window.
type KubernetesUse struct {
	Host         string          `json:"host"`         // whose sampler watches the cluster
	Samples      int             `json:"samples"`      // 0: no data, never "idle"
	Distribution string          `json:"distribution"` // what its nodes are called together: "k3s", "cluster", …
	Autoscalers  []AutoscalerUse `json:"autoscalers,omitempty"`
	Workloads    []WorkloadUse   `json:"workloads,omitempty"` // all of the watched namespace, and those elsewhere that something happened to
	Nodes        []NodeUse       `json:"nodes,omitempty"`
}

// AutoscalerUse is a HorizontalPodAutoscaler during one step's window.
type AutoscalerUse struct {
	Name            string  `json:"name"`
	Workload        string  `json:"workload"`        // what it scales
	Replicas        float64 `json:"replicas"`        // mean number that there were
	FirstReplicas   int     `json:"firstReplicas"`   // at the window's beginning
	LastReplicas    int     `json:"lastReplicas"`    // at its end
	DesiredReplicas int     `json:"desiredReplicas"` // at its end
	MaxReplicas     int     `json:"maxReplicas"`
	LoadRatio       float64 `json:"loadRatio"`         // mean of metric ÷ target, of several the largest; 1 is on target, −1 unknown
	LimitedRatio    float64 `json:"limitedRatio"`      // of the readings in which it wanted more than its maximum
	Problem         string  `json:"problem,omitempty"` // why it does not scale at all: "FailedGetResourceMetric"
}

// WorkloadUse is the pods of one Deployment, or of whatever owns them, during one
// step's window. Its name has the namespace before it when that is not the watched one.
type WorkloadUse struct {
	Name           string             `json:"name"`
	Serves         bool               `json:"serves,omitempty"`  // a Service of the watched namespace leads to its pods: requests can come through them
	Pods           float64            `json:"pods"`              // mean number; those that ended are left out
	ReadyPods      float64            `json:"readyPods"`         // mean number
	StartingPods   int                `json:"startingPods"`      // at the window's end: on their way, neither ready nor refused by every node
	Pending        map[string]float64 `json:"pending,omitempty"` // mean number that no node takes, by reason: "Insufficient cpu"
	Waiting        map[string]float64 `json:"waiting,omitempty"` // mean number of containers that do not start, by reason: "ImagePullBackOff"
	ThrottledRatio float64            `json:"throttledRatio"`    // of its pods' CPU periods, throttled by their limit; −1 when unknown
	Restarts       int64              `json:"restarts"`
	OOMKills       int64              `json:"oomKills"`
}

// NodeUse is a node during one step's window.
type NodeUse struct {
	Name          string   `json:"name"`
	Pods          float64  `json:"pods"`                 // mean number on it
	NotReadyRatio float64  `json:"notReadyRatio"`        // of the readings
	Conditions    []string `json:"conditions,omitempty"` // that held at any time: "MemoryPressure"
}

func (u KubernetesUse) sampled() bool { return u.Samples > 0 }

// clusters are what the clusters said in the steps that have data.
func clusters(steps []Step) []KubernetesUse {
	var all []KubernetesUse
	for _, s := range steps {
		if s.Kubernetes != nil && s.Kubernetes.sampled() {
			all = append(all, *s.Kubernetes)
		}
	}
	return all
}

// named are the uses of every name over the steps, by name.
func named[T any](steps []Step, list func(KubernetesUse) []T, name func(T) string) map[string][]T {
	all := map[string][]T{}
	for _, u := range clusters(steps) {
		for _, use := range list(u) {
			all[name(use)] = append(all[name(use)], use)
		}
	}
	return all
}

// autoscalers are the medians of every autoscaler over the steps, by name; the
// ends are those of all together.
func autoscalers(near []Step) []AutoscalerUse {
	all := named(near, func(u KubernetesUse) []AutoscalerUse { return u.Autoscalers }, func(a AutoscalerUse) string { return a.Name })
	var out []AutoscalerUse
	for _, name := range sortedKeys(all) {
		uses := all[name]
		m := uses[len(uses)-1]
		m.FirstReplicas = uses[0].FirstReplicas
		m.Replicas = medianOf(uses, func(a AutoscalerUse) float64 { return a.Replicas })
		m.LoadRatio = medianKnown(uses, func(a AutoscalerUse) float64 { return a.LoadRatio })
		m.LimitedRatio = medianOf(uses, func(a AutoscalerUse) float64 { return a.LimitedRatio })
		out = append(out, m)
	}
	return out
}

// podGroups are the medians of every workload over the steps, by name; what
// happened is summed.
func podGroups(near []Step) []WorkloadUse {
	all := named(near, func(u KubernetesUse) []WorkloadUse { return u.Workloads }, func(w WorkloadUse) string { return w.Name })
	var out []WorkloadUse
	for _, name := range sortedKeys(all) {
		uses := all[name]
		last := uses[len(uses)-1]
		m := WorkloadUse{
			Name: name, Serves: last.Serves, StartingPods: last.StartingPods,
			Pods:           medianOf(uses, func(w WorkloadUse) float64 { return w.Pods }),
			ReadyPods:      medianOf(uses, func(w WorkloadUse) float64 { return w.ReadyPods }),
			ThrottledRatio: medianKnown(uses, func(w WorkloadUse) float64 { return w.ThrottledRatio }),
			Pending:        medians(uses, func(w WorkloadUse) map[string]float64 { return w.Pending }),
			Waiting:        medians(uses, func(w WorkloadUse) map[string]float64 { return w.Waiting }),
		}
		for _, w := range uses {
			m.Restarts += w.Restarts
			m.OOMKills += w.OOMKills
		}
		out = append(out, m)
	}
	return out
}

// nodeOn is the node that a host is, if it is one.
func nodeOn(host string, all []NodeUse) (NodeUse, bool) {
	i := slices.IndexFunc(all, func(n NodeUse) bool { return n.Name == host })
	if i < 0 {
		return NodeUse{}, false
	}
	return all[i], true
}

// nodes are the medians of every node over the steps, by name. A condition counts
// that held in any of them.
func nodes(near []Step) []NodeUse {
	all := named(near, func(u KubernetesUse) []NodeUse { return u.Nodes }, func(n NodeUse) string { return n.Name })
	var out []NodeUse
	for _, name := range sortedKeys(all) {
		m := NodeUse{
			Name:          name,
			Pods:          medianOf(all[name], func(n NodeUse) float64 { return n.Pods }),
			NotReadyRatio: medianOf(all[name], func(n NodeUse) float64 { return n.NotReadyRatio }),
		}
		for _, n := range all[name] {
			m.Conditions = append(m.Conditions, n.Conditions...)
		}
		slices.Sort(m.Conditions)
		m.Conditions = slices.Compact(m.Conditions)
		out = append(out, m)
	}
	return out
}

func medianOf[T any](uses []T, get func(T) float64) float64 {
	var values []float64
	for _, u := range uses {
		values = append(values, get(u))
	}
	return median(values)
}

// medianKnown is the median of the values that are known, −1 when none is.
func medianKnown[T any](uses []T, get func(T) float64) float64 {
	known := slices.DeleteFunc(slices.Clone(uses), func(u T) bool { return get(u) < 0 })
	if len(known) == 0 {
		return -1
	}
	return medianOf(known, get)
}

// medians are those of every key; a use that lacks one counts as 0.
func medians[T any](uses []T, get func(T) map[string]float64) map[string]float64 {
	out := map[string]float64{}
	for _, u := range uses {
		for key := range get(u) {
			out[key] = medianOf(uses, func(u T) float64 { return get(u)[key] })
		}
	}
	return out
}

// ofCluster gives every host that is a node of the cluster one more role, named
// after the distribution: servers and agents do the same work for a request.
func ofCluster(all []HostUse, steps []Step) []HostUse {
	role := map[string]string{}
	for _, u := range clusters(steps) {
		for _, n := range u.Nodes {
			role[n.Name] = u.Distribution
		}
	}
	out := slices.Clone(all)
	for i, h := range out {
		if r := role[h.Host]; r != "" && !slices.Contains(h.Roles, r) {
			out[i].Roles = append(slices.Clone(h.Roles), r)
		}
	}
	return out
}
