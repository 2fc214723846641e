package sample

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"lab/loadtest/plan"
)

// watchIdle is how long the watches outlive the last question: between load tests a
// cluster's changes interest nobody.
const watchIdle = time.Minute

// The kinds that are watched. A reader's account may list and watch them, and
// nothing else.
const (
	podsPath        = "/api/v1/pods"
	nodesPath       = "/api/v1/nodes"
	servicesPath    = "/api/v1/services"
	autoscalersPath = "/apis/autoscaling/v2/horizontalpodautoscalers"
)

// ClusterCounters are what a cluster says of itself now, and what happened since it
// is watched.
type ClusterCounters struct {
	Distribution string               `json:"distribution"`
	Autoscalers  []AutoscalerCounters `json:"autoscalers"`
	Workloads    []WorkloadCounters   `json:"workloads"`
	Nodes        []NodeCounters       `json:"nodes"`
}

// AutoscalerCounters are an autoscaler now.
type AutoscalerCounters struct {
	Name     string  `json:"name"`
	Workload string  `json:"workload"`
	Current  int     `json:"current"`
	Desired  int     `json:"desired"`
	Max      int     `json:"max"`
	Load     float64 `json:"load"`    // metric ÷ target; −1 when unknown
	Limited  bool    `json:"limited"` // it wants more than its maximum
	Problem  string  `json:"problem,omitempty"`
}

// WorkloadCounters are the pods of one owner: now, and in all for what happened.
type WorkloadCounters struct {
	Name     string         `json:"name"`
	Serves   bool           `json:"serves"` // a Service of the watched namespace leads to them
	Pods     int            `json:"pods"`
	Ready    int            `json:"ready"`
	Starting int            `json:"starting"`
	Pending  map[string]int `json:"pending,omitempty"` // pods that no node takes, by reason
	Waiting  map[string]int `json:"waiting,omitempty"` // containers that do not start, by reason
	UIDs     []string       `json:"uids,omitempty"`    // of its pods, of the watched namespace
	Restarts int64          `json:"restarts"`          // in all
	OOMKills int64          `json:"oomKills"`          // in all
}

// NodeCounters are a node now.
type NodeCounters struct {
	Name       string   `json:"name"`
	Ready      bool     `json:"ready"`
	Pods       int      `json:"pods"`
	Conditions []string `json:"conditions,omitempty"` // beside Ready, that hold
}

// kubernetes watches a cluster while it is asked.
type kubernetes struct {
	service plan.Service
	watch   *clusterWatch // nil: not watching
}

func (k *kubernetes) ask(ctx context.Context) (ServiceCounters, error) {
	if k.watch == nil || !k.watch.stay() {
		api, err := readKubeconfig(k.service.Address)
		if err != nil {
			return ServiceCounters{}, err
		}
		k.watch = watchCluster(api, k.service.Namespace, watchIdle)
	}
	cluster, err := k.watch.read(ctx)
	return ServiceCounters{Cluster: cluster}, err
}

// clusterWatch keeps the objects of a cluster.
type clusterWatch struct {
	namespace string
	idle      time.Duration
	stop      context.CancelFunc
	unused    *time.Timer // stops the watches

	mu          sync.Mutex
	pods        *kept[pod]
	nodes       *kept[node]
	services    *kept[service]
	autoscalers *kept[autoscaler]
	totals      map[string]*totals // by workload
}

// totals are what happened to a workload's pods, also to those that are gone.
type totals struct{ restarts, kills int64 }

// watchCluster begins to watch, until nobody asks for so long.
func watchCluster(api *apiServer, namespace string, idle time.Duration) *clusterWatch {
	ctx, cancel := context.WithCancel(context.Background())
	w := &clusterWatch{namespace: namespace, idle: idle, totals: map[string]*totals{}}
	w.pods, w.nodes = newKept[pod](podsPath, &w.mu), newKept[node](nodesPath, &w.mu)
	w.services, w.autoscalers = newKept[service](servicesPath, &w.mu), newKept[autoscaler](autoscalersPath, &w.mu)
	w.pods.changed = w.count
	w.stop = func() {
		cancel()
		api.client.CloseIdleConnections()
	}
	w.unused = time.AfterFunc(idle, w.stop)
	go w.pods.follow(ctx, api)
	go w.nodes.follow(ctx, api)
	go w.services.follow(ctx, api)
	go w.autoscalers.follow(ctx, api)
	return w
}

// stay keeps the watches; false when they were stopped already.
func (w *clusterWatch) stay() bool {
	if !w.unused.Stop() {
		return false
	}
	w.unused.Reset(w.idle)
	return true
}

// count adds what happened to a pod. What a list shows of one that was not known is
// from before, and counts for nothing.
func (w *clusterWatch) count(before *pod, now pod, listed bool) {
	if before == nil && listed {
		return
	}
	restarts, kills := happened(before, now)
	if restarts == 0 && kills == 0 {
		return
	}
	name := w.name(now.Metadata.Namespace, now.workload())
	if w.totals[name] == nil {
		w.totals[name] = &totals{}
	}
	w.totals[name].restarts += restarts
	w.totals[name].kills += kills
}

// name is a name with its namespace, if that is not the watched one.
func (w *clusterWatch) name(namespace, name string) string {
	if namespace == w.namespace {
		return name
	}
	return namespace + "/" + name
}

// read is the cluster as the streams have told it. While any of them is broken
// there is an error: what was known last is no reading.
func (w *clusterWatch) read(ctx context.Context) (*ClusterCounters, error) {
	for _, tried := range []chan struct{}{w.pods.tried, w.nodes.tried, w.services.tried, w.autoscalers.tried} {
		select {
		case <-tried:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", errUnheard, ctx.Err())
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := errors.Join(w.pods.err, w.nodes.err, w.services.err, w.autoscalers.err); err != nil {
		return nil, err
	}
	c := &ClusterCounters{Distribution: "cluster", Workloads: w.workloads(), Nodes: w.countedNodes()}
	for _, n := range w.nodes.all {
		c.Distribution = max(c.Distribution, n.distribution()) // they are all of one
	}
	for _, a := range w.autoscalers.all {
		c.Autoscalers = append(c.Autoscalers, AutoscalerCounters{
			Name: w.name(a.Metadata.Namespace, a.Metadata.Name), Workload: w.name(a.Metadata.Namespace, a.Spec.Target.Name),
			Current: a.Status.Current, Desired: a.Status.Desired, Max: a.Spec.Max, Load: a.load(), Limited: a.limited(), Problem: a.problem(),
		})
	}
	slices.SortFunc(c.Autoscalers, func(a, b AutoscalerCounters) int { return cmp.Compare(a.Name, b.Name) })
	return c, nil
}

// workloads are those of the watched namespace, and of the others those whose pods
// find no node, do not start, restarted or were killed.
func (w *clusterWatch) workloads() []WorkloadCounters {
	by := map[string]*WorkloadCounters{}
	get := func(name string) *WorkloadCounters {
		if by[name] == nil {
			by[name] = &WorkloadCounters{Name: name, Pending: map[string]int{}, Waiting: map[string]int{}}
		}
		return by[name]
	}
	for _, p := range w.pods.all {
		if !p.ended() {
			w.add(get(w.name(p.Metadata.Namespace, p.workload())), p)
		}
	}
	for name, t := range w.totals {
		c := get(name)
		c.Restarts, c.OOMKills = t.restarts, t.kills
	}
	var all []WorkloadCounters
	for _, c := range by {
		elsewhere := strings.Contains(c.Name, "/") // a name itself has none
		if elsewhere && len(c.Pending)+len(c.Waiting) == 0 && c.Restarts+c.OOMKills == 0 {
			continue
		}
		slices.Sort(c.UIDs)
		all = append(all, *c)
	}
	slices.SortFunc(all, func(a, b WorkloadCounters) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

func (w *clusterWatch) add(c *WorkloadCounters, p pod) {
	c.Pods++
	refused, ready := p.refused(), p.ready()
	switch {
	case ready:
		c.Ready++
	case refused != "":
		c.Pending[refused]++
	case p.Metadata.Deleted == "":
		c.Starting++
	}
	for _, reason := range p.waits() {
		c.Waiting[reason]++
	}
	if p.Metadata.Namespace != w.namespace {
		return // what others lack is noted: whether requests need them is not known
	}
	c.UIDs = append(c.UIDs, p.Metadata.UID)
	for _, s := range w.services.all {
		c.Serves = c.Serves || s.Metadata.Namespace == p.Metadata.Namespace && s.selects(p.Metadata.Labels)
	}
}

func (w *clusterWatch) countedNodes() []NodeCounters {
	pods := map[string]int{}
	for _, p := range w.pods.all {
		if !p.ended() && p.Spec.NodeName != "" {
			pods[p.Spec.NodeName]++
		}
	}
	all := []NodeCounters{}
	for _, n := range w.nodes.all {
		name := n.Metadata.Name
		all = append(all, NodeCounters{name, find(n.Status.Conditions, "Ready").Status == "True", pods[name], n.troubles()})
	}
	slices.SortFunc(all, func(a, b NodeCounters) int { return cmp.Compare(a.Name, b.Name) })
	return all
}
