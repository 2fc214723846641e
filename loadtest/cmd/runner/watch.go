package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"lab/loadtest/analysis"
	"lab/loadtest/plan"
	"lab/loadtest/sample"
)

const (
	sampleEvery   = time.Second
	sampleTimeout = 3 * time.Second  // a host that is out of CPU answers late
	firstTimeout  = 10 * time.Second // for the samplers to come up
	clockAge      = 30 * time.Second // clocks are set meanwhile
	recovery      = time.Minute      // for a host to answer again that has run out of memory
)

// watcher reads every host each second.
type watcher struct {
	plan   plan.Plan
	client *http.Client
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu       sync.Mutex
	readings map[string][]sample.Reading // since the step before the last began
	first    map[string]sample.Reading
	gaps     map[string]int            // readings that failed
	clocks   map[string]sample.Reading // the last one that came quickly, which knows the host's clock best
}

// newWatcher starts watching. A host that does not answer at the start is an
// error: a wall there could not be seen.
func newWatcher(ctx context.Context, p plan.Plan) (*watcher, error) {
	ctx, cancel := context.WithCancel(ctx)
	w := &watcher{
		plan: p, cancel: cancel,
		readings: map[string][]sample.Reading{}, first: map[string]sample.Reading{}, gaps: map[string]int{}, clocks: map[string]sample.Reading{},
		client: &http.Client{Timeout: sampleTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 1}},
	}
	for _, h := range p.Hosts {
		if err := w.readFirst(ctx, h); err != nil {
			cancel()
			return nil, fmt.Errorf("sample %s: %w", h.Name, err)
		}
	}
	for _, h := range p.Hosts {
		w.done.Add(1)
		go w.follow(ctx, h)
	}
	return w, nil
}

func (w *watcher) stop() {
	w.cancel()
	w.done.Wait()
	w.client.CloseIdleConnections()
}

func (w *watcher) readFirst(ctx context.Context, h plan.Host) error {
	for deadline := time.Now().Add(firstTimeout); ; {
		err := w.read(ctx, h)
		if err == nil || time.Now().After(deadline) || strings.Contains(err.Error(), "401") {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(firstTimeout / 50):
		}
	}
}

func (w *watcher) follow(ctx context.Context, h plan.Host) {
	defer w.done.Done()
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := w.read(ctx, h); err != nil && ctx.Err() == nil {
				w.mu.Lock()
				w.gaps[h.Name]++ // the counters are cumulative: a gap loses detail only
				w.mu.Unlock()
			}
		}
	}
}

func (w *watcher) read(ctx context.Context, h plan.Host) error {
	r, err := sample.Fetch(ctx, w.client, h.Sampler, w.plan.Token)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.first[h.Name]; !ok {
		w.first[h.Name] = r
	}
	w.readings[h.Name] = append(w.readings[h.Name], r)
	if best, ok := w.clocks[h.Name]; !ok || r.RoundTrip <= best.RoundTrip || r.At.Sub(best.At) > clockAge {
		w.clocks[h.Name] = r
	}
	return nil
}

// clock is how far a host's wall clock is ahead of this one's, as the quickest of
// the last readings tells: half its round trip is the uncertainty.
func (w *watcher) clock(host string) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clocks[host].ClockOffset
}

// mark is what a step begins with: every host's last reading, before which
// nothing is needed any more, and the CPU seconds of this process.
type mark struct {
	readings map[string]sample.Reading
	at       time.Time
	self     float64
}

func (w *watcher) mark() mark {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := mark{map[string]sample.Reading{}, time.Now(), processCPUSeconds()}
	for name, readings := range w.readings {
		last := readings[len(readings)-1]
		m.readings[name] = last
		w.readings[name] = []sample.Reading{last}
	}
	return m
}

// seen is what the hosts and their services used during a step's window.
type seen struct {
	hosts      []analysis.HostUse
	services   []analysis.ServiceUse
	kubernetes *analysis.KubernetesUse // nil: no sampler watches a cluster
	generators []analysis.HostUse      // the lead's first
}

// between is every host's use from the first to the last reading in the window,
// with the overflows, kills and restarts since the step began: they must not get lost
// between two windows. processes are the CPUs that the further generators' own
// processes used, by host.
func (w *watcher) between(from, until time.Time, begun mark, processes map[string]float64) seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	var s seen
	processes = maps.Clone(processes)
	if processes == nil {
		processes = map[string]float64{}
	}
	processes[w.plan.Generator] = (processCPUSeconds() - begun.self) / time.Since(begun.at).Seconds()
	windows := map[string][]sample.Counters{}
	first, last := map[string]sample.Counters{}, map[string]sample.Counters{}
	for _, h := range w.plan.Hosts {
		window := inside(w.readings[h.Name], from, until)
		windows[h.Name] = window
		if n := len(window); n > 1 {
			first[h.Name], last[h.Name] = window[0], window[n-1]
		}
		s.services = append(s.services, sample.UseServices(h, window)...)
	}
	var foreign map[string]float64
	if len(last) == len(w.plan.Hosts) { // what a host without readings used would be taken for others' work
		foreign = sample.Foreign(first, last)
	}
	for _, h := range w.plan.Hosts {
		u := use(h, windows[h.Name], until.Sub(from))
		u.ForeignCPURatio = foreign[last[h.Name].Boot]
		w.count(&u, begun)
		if own, generates := processes[h.Name]; generates {
			// The process is part of its host: also a host without samples uses so much.
			u.CPURatio = max(u.CPURatio, own/h.CPUs)
			u.CPUSeconds = max(u.CPUSeconds, own*until.Sub(from).Seconds())
			s.generators = append(s.generators, u)
		}
		s.hosts = append(s.hosts, u)
	}
	s.kubernetes = w.cluster(windows)
	return s
}

// count sets a host's overflows and kills since a step began.
func (w *watcher) count(u *analysis.HostUse, begun mark) {
	if n := len(w.readings[u.Host]); n > 0 {
		u.ListenOverflows, u.OOMKills = sample.Events(begun.readings[u.Host].Counters, w.readings[u.Host][n-1].Counters)
	}
}

// recount waits for the hosts of the last step that have said nothing since it began,
// and counts its overflows and kills again. A host without memory answers nobody: what
// the kernel killed there is known only when it does again.
func (w *watcher) recount(ctx context.Context, hosts []analysis.HostUse, begun mark, patience time.Duration) {
	for deadline := time.Now().Add(patience); w.silent(hosts, begun) && time.Now().Before(deadline); {
		select {
		case <-ctx.Done():
			return
		case <-time.After(sampleEvery / 4):
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range hosts {
		w.count(&hosts[i], begun)
	}
}

// silent says whether a host has not been read since a step began.
func (w *watcher) silent(hosts []analysis.HostUse, begun mark) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(hosts, func(u analysis.HostUse) bool {
		readings := w.readings[u.Host]
		return len(readings) > 0 && !readings[len(readings)-1].At.After(begun.at)
	})
}

// cluster is what the sampler that watches one saw of it; what happened counts from
// the reading that the step began with.
func (w *watcher) cluster(windows map[string][]sample.Counters) *analysis.KubernetesUse {
	for _, h := range w.plan.Hosts {
		var since []sample.Counters
		for _, r := range w.readings[h.Name] {
			since = append(since, r.Counters)
		}
		if u := sample.UseKubernetes(h, windows, since); u != nil {
			return u
		}
	}
	return nil
}

// inside are the counters read in the window.
func inside(readings []sample.Reading, from, until time.Time) []sample.Counters {
	var all []sample.Counters
	for _, r := range readings {
		if !r.At.Before(from) && !r.At.After(until) {
			all = append(all, r.Counters)
		}
	}
	return all
}

// use is a host's use between the first and the last reading of a window.
func use(h plan.Host, window []sample.Counters, length time.Duration) analysis.HostUse {
	if len(window) < 2 {
		return sample.Unknown(h)
	}
	first, last := window[0], window[len(window)-1]
	u, ok := sample.Use(h, first, last)
	if ok {
		u.Samples = len(window)
		u.CPUSeconds *= length.Seconds() / sample.Elapsed(first, last) // to the whole window
	}
	return u
}

// cost is what watching cost each host, and how far its clock is off.
func (w *watcher) cost() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := "samplers:"
	for _, name := range slices.Sorted(maps.Keys(w.first)) {
		first, last := w.first[name], w.readings[name][len(w.readings[name])-1]
		seconds := max(sample.Elapsed(first.Counters, last.Counters), 1e-9)
		text += fmt.Sprintf(" %s %.2f%% of a CPU, clock %+.1f ms, %d gaps;", name,
			100*(last.Counters.SelfCPUSeconds-first.Counters.SelfCPUSeconds)/seconds,
			float64(last.ClockOffset.Microseconds())/1000, w.gaps[name])
	}
	return strings.TrimSuffix(text, ";")
}

// processCPUSeconds is the CPU time of this process; 0 when the kernel has none.
func processCPUSeconds() float64 {
	var self syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &self); err != nil {
		return 0
	}
	return float64(self.Utime.Nano()+self.Stime.Nano()) / 1e9
}
