package main

import (
	"context"
	"math"
	"testing"
	"time"

	"lab/loadtest/analysis"
	"lab/loadtest/plan"
	"lab/loadtest/sample"
)

func TestUseOfAWindow(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	reading := func(second, cpu float64) sample.Reading {
		return sample.Reading{At: start.Add(seconds(second)), Counters: sample.Counters{
			Kind: "cgroup", MonotonicNano: 1 + int64(second*1e9), CPUSeconds: cpu, PSICPUSeconds: -1, PSIIOSeconds: -1, DiskBusySeconds: -1}}
	}
	all := []sample.Reading{reading(0, 0), reading(3.5, 10), reading(4.5, 10.25), reading(9.5, 11.5), reading(10.5, 20)}
	h := plan.Host{Name: "app", CPUs: 0.5}
	u := use(h, inside(all, start.Add(seconds(3)), start.Add(seconds(10))), seconds(7))
	if u.Samples != 3 || math.Abs(u.CPURatio-0.5) > 1e-6 || math.Abs(u.CPUSeconds-1.75) > 1e-6 {
		t.Errorf("%+v; want 3 samples, a ratio of 0.5 and 1.75 CPU seconds in the 7 s window", u)
	}
	if u := use(h, inside(all, start.Add(seconds(4)), start.Add(seconds(5))), seconds(1)); u.Samples != 0 || u.CPURatio != 0 {
		t.Errorf("one reading is no use: %+v", u)
	}
}

// Overflows and kills between two windows belong to the step they are nearest.
func TestEventsOutsideTheWindowAreKept(t *testing.T) {
	p := plan.Plan{Hosts: []plan.Host{{Name: "app", CPUs: 1}}}
	w := &watcher{plan: p, readings: map[string][]sample.Reading{}}
	start := time.Now()
	add := func(second float64, kills int64) {
		w.readings["app"] = append(w.readings["app"], sample.Reading{At: start.Add(seconds(second)), Counters: sample.Counters{OOMKills: kills}})
	}
	add(0, 1)
	begun := w.mark()
	add(1, 2)  // in the discard
	add(12, 3) // while draining
	hosts := w.between(start.Add(seconds(3)), start.Add(seconds(10)), begun, nil).hosts
	if hosts[0].OOMKills != 2 || hosts[0].Samples != 0 {
		t.Errorf("%+v; want 2 kills", hosts[0])
	}
	if next := w.between(start.Add(seconds(15)), start.Add(seconds(20)), w.mark(), nil).hosts; next[0].OOMKills != 0 {
		t.Errorf("the next step counts %d kills again", next[0].OOMKills)
	}
}

// What was killed on a host that did not answer is counted once it does again.
func TestEventsOfASilentHostAreWaitedFor(t *testing.T) {
	const patience = time.Minute // of which no more is waited than needed
	start := time.Now()
	reading := func(at time.Time, kills int64) sample.Reading {
		return sample.Reading{At: at, Counters: sample.Counters{OOMKills: kills}}
	}
	w := &watcher{readings: map[string][]sample.Reading{"app": {reading(start, 0)}, "database": {reading(start, 1)}}}
	begun := w.mark()
	w.readings["app"] = append(w.readings["app"], reading(begun.at.Add(time.Second), 0))
	hosts := []analysis.HostUse{{Host: "app"}, {Host: "database"}, {Host: "never read"}}
	if !w.silent(hosts, begun) {
		t.Fatal("the database was read since the step began")
	}
	go func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.readings["database"] = append(w.readings["database"], reading(begun.at.Add(time.Minute), 3))
	}()
	w.recount(context.Background(), hosts, begun, patience)
	if hosts[0].OOMKills != 0 || hosts[1].OOMKills != 2 || hosts[2].OOMKills != 0 {
		t.Errorf("%+v; want 2 kills on the database", hosts)
	}

	gone, cancel := context.WithCancel(context.Background())
	cancel()
	w.recount(gone, []analysis.HostUse{{Host: "app"}}, mark{at: start.Add(time.Hour)}, patience) // returns
}

// The cluster's restarts outside the window belong to the step too, its state does
// not.
func TestTheClusterOfAWindow(t *testing.T) {
	p := plan.Plan{Hosts: []plan.Host{{Name: "agent-1", CPUs: 1}, {Name: "server", CPUs: 1, Services: []string{"kubernetes"}}}}
	w := &watcher{plan: p, readings: map[string][]sample.Reading{}}
	start := time.Now()
	add := func(second float64, pods int, restarts int64) {
		cluster := &sample.ClusterCounters{Workloads: []sample.WorkloadCounters{{Name: "web", Pods: pods, Restarts: restarts}}}
		w.readings["server"] = append(w.readings["server"], sample.Reading{At: start.Add(seconds(second)), Counters: sample.Counters{
			Services: []sample.ServiceCounters{{Kind: "kubernetes", Cluster: cluster}}}})
	}
	add(0, 1, 5)
	begun := w.mark()
	add(1, 1, 6) // in the discard
	add(4, 2, 6)
	add(9, 4, 7)
	add(12, 9, 9) // while draining
	u := w.between(start.Add(seconds(3)), start.Add(seconds(10)), begun, nil).kubernetes
	if u == nil || u.Host != "server" || u.Samples != 2 || u.Workloads[0].Pods != 3 || u.Workloads[0].Restarts != 4 {
		t.Errorf("%+v; want the mean of two readings, and four restarts", u)
	}
}

// What a host used that could not be read is not the work of others.
func TestAHostWithoutReadingsIsNotForeign(t *testing.T) {
	start := time.Now()
	reading := func(second, cpu, busy float64) sample.Reading {
		return sample.Reading{At: start.Add(seconds(second)), Counters: sample.Counters{
			Kind: "cgroup", Boot: "x", MonotonicNano: 1 + int64(second*1e9), CPUSeconds: cpu, BusySeconds: busy, MachineSeconds: 2 * second}}
	}
	for _, row := range []struct {
		name string
		app  []sample.Reading
		want float64
	}{
		{"both are read", []sample.Reading{reading(1, 0, 0), reading(9, 6, 8)}, 1.0 / 16}, // of 16: 8 busy, 6 + 1 the hosts'
		{"one is not", nil, 0},
	} {
		w := &watcher{
			plan:     plan.Plan{Hosts: []plan.Host{{Name: "app", CPUs: 1}, {Name: "edge", CPUs: 1}}},
			readings: map[string][]sample.Reading{"app": row.app, "edge": {reading(1, 0, 0), reading(9, 1, 8)}},
		}
		got := w.between(start, start.Add(seconds(10)), mark{readings: map[string]sample.Reading{}}, nil).hosts[1].ForeignCPURatio
		if math.Abs(got-row.want) > 1e-9 {
			t.Errorf("%s: foreign %g, want %g", row.name, got, row.want)
		}
	}
}
