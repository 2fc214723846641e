package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lab/atomicfile"
	"lab/loadtest/analysis"
)

// beside is a file next to the result: result.json and .log give result.log.
func beside(out, suffix string) string {
	return strings.TrimSuffix(out, filepath.Ext(out)) + suffix
}

// prepare looks at what an earlier start left. The result of this run means that
// there is nothing to do. Steps of an attempt that was killed are put aside and
// not continued: what happened to the target since is unknown. Files of other
// runs go, so that nobody takes them for this one's.
func prepare(out, runID string, log io.Writer) (finished bool, err error) {
	if r, err := readResult(out); err == nil && r.RunID == runID {
		fmt.Fprintln(log, "run", runID, "has its result already")
		return true, nil
	}
	if err := remove(out); err != nil {
		return false, err
	}
	partial := beside(out, ".partial.json")
	r, err := readResult(partial)
	if err != nil || r.RunID != runID {
		return false, remove(partial)
	}
	fmt.Fprintf(log, "an earlier attempt at run %s ended after %d steps: starting anew, its steps are in %s\n",
		runID, len(r.Steps), filepath.Base(beside(out, ".interrupted.json")))
	return false, os.Rename(partial, beside(out, ".interrupted.json"))
}

func remove(file string) error {
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// finish writes the result; its appearance says that the run is over.
func finish(out string, r analysis.Result) error {
	if err := write(out, r); err != nil {
		return err
	}
	return remove(beside(out, ".partial.json")) // the result holds all of it
}

func readResult(file string) (analysis.Result, error) {
	var r analysis.Result
	raw, err := os.ReadFile(file)
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(raw, &r)
}

// write replaces the file at once: a reader, also one after a crash, sees the
// old or the new one.
func write(file string, r analysis.Result) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := atomicfile.Write(file, raw, 0o644); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}

// rounded keeps the result small: four significant digits are more than any
// figure here is good for. Rates and lengths, which the search set, stay.
func rounded(s analysis.Step) analysis.Step {
	for _, v := range []*float64{&s.P50Ms, &s.P95Ms, &s.P99Ms, &s.SendP95Ms, &s.SchedLagP50Ms, &s.MeanMs, &s.InFlightMean, &s.BacklogSlopeRPS} {
		*v = round(*v)
	}
	s.Hosts = append([]analysis.HostUse(nil), s.Hosts...)
	for i := range s.Hosts {
		roundUse(&s.Hosts[i])
	}
	roundUse(&s.Generator)
	s.Generators = append([]analysis.HostUse(nil), s.Generators...)
	for i := range s.Generators {
		roundUse(&s.Generators[i])
	}
	s.Services = append([]analysis.ServiceUse(nil), s.Services...)
	for i := range s.Services {
		s.Services[i] = roundedService(s.Services[i])
	}
	s.Kubernetes = roundedCluster(s.Kubernetes)
	return s
}

func roundedCluster(u *analysis.KubernetesUse) *analysis.KubernetesUse {
	if u == nil {
		return nil
	}
	r := *u
	r.Autoscalers, r.Workloads, r.Nodes = slices.Clone(u.Autoscalers), slices.Clone(u.Workloads), slices.Clone(u.Nodes)
	for i := range r.Autoscalers {
		a := &r.Autoscalers[i]
		a.Replicas, a.LoadRatio, a.LimitedRatio = round(a.Replicas), round(a.LoadRatio), round(a.LimitedRatio)
	}
	for i := range r.Workloads {
		w := &r.Workloads[i]
		w.Pods, w.ReadyPods, w.ThrottledRatio = round(w.Pods), round(w.ReadyPods), round(w.ThrottledRatio)
		w.Pending, w.Waiting = roundedMap(w.Pending), roundedMap(w.Waiting)
	}
	for i := range r.Nodes {
		n := &r.Nodes[i]
		n.Pods, n.NotReadyRatio = round(n.Pods), round(n.NotReadyRatio)
	}
	return &r
}

func roundedMap(m map[string]float64) map[string]float64 {
	r := map[string]float64{}
	for key, v := range m {
		r[key] = round(v)
	}
	return r
}

func roundedService(u analysis.ServiceUse) analysis.ServiceUse {
	for _, v := range []*float64{&u.Connections, &u.Waiting, &u.ThreadRatio, &u.HitRatio, &u.LookupsRPS} {
		*v = round(*v)
	}
	u.Waits = roundedMap(u.Waits)
	u.Statements = append([]analysis.Statement(nil), u.Statements...)
	for i := range u.Statements {
		u.Statements[i].MeanMs, u.Statements[i].ShareRatio = round(u.Statements[i].MeanMs), round(u.Statements[i].ShareRatio)
	}
	return u
}

func roundUse(u *analysis.HostUse) {
	for _, v := range []*float64{&u.CPURatio, &u.CPUSeconds, &u.StealRatio, &u.ForeignCPURatio, &u.ConntrackRatio, &u.ThrottledRatio, &u.PSICPURatio, &u.MemoryRatio, &u.DiskRatio, &u.PSIIORatio, &u.NetMbps} {
		*v = round(*v)
	}
}

func round(v float64) float64 {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	unit := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*unit) / unit
}
