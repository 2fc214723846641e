package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"lab/loadtest/analysis"
	"lab/loadtest/plan"
	"lab/loadtest/sample"
)

// reading is one host's counters with the time, on this clock, they are of.
type reading struct {
	at       time.Time
	counters sample.Counters
}

// watcher reads every host each second.
type watcher struct {
	plan   plan.Plan
	client *http.Client
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu       sync.Mutex
	readings map[string][]reading
}

// newWatcher starts watching; a host that does not answer at the start is an
// error, since a wall there could not be seen.
func newWatcher(ctx context.Context, p plan.Plan) (*watcher, error) {
	ctx, cancel := context.WithCancel(ctx)
	w := &watcher{
		plan: p, cancel: cancel, readings: map[string][]reading{},
		client: &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 1}},
	}
	for _, h := range p.Hosts {
		if err := w.read(ctx, h); err != nil {
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
}

func (w *watcher) follow(ctx context.Context, h plan.Host) {
	defer w.done.Done()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = w.read(ctx, h) // a gap: the step's use spans its neighbours
		}
	}
}

func (w *watcher) read(ctx context.Context, h plan.Host) error {
	c, offset, err := sample.Fetch(ctx, w.client, h.Sampler, w.plan.Token)
	if err != nil {
		return err
	}
	at := time.Unix(0, c.UnixNano).Add(-offset)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.readings[h.Name] = append(w.readings[h.Name], reading{at, c})
	return nil
}

// between is every host's use from the first to the last reading in the window.
func (w *watcher) between(from, until time.Time) (hosts []analysis.HostUse, generator analysis.HostUse) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.plan.Hosts {
		var inside []reading
		for _, r := range w.readings[h.Name] {
			if !r.at.Before(from) && !r.at.After(until) {
				inside = append(inside, r)
			}
		}
		u := analysis.HostUse{Host: h.Name, Roles: h.Roles, CPUs: h.CPUs, LinkMbps: h.LinkMbps, PSICPURatio: -1, PSIIORatio: -1, DiskRatio: -1}
		if n := len(inside); n >= 2 {
			first, last := inside[0], inside[n-1]
			u = sample.Use(h.Name, h.Roles, h.CPUs, h.LinkMbps, first.counters, last.counters)
			u.Samples = n
			u.CPUSeconds *= until.Sub(from).Seconds() / last.at.Sub(first.at).Seconds() // to the whole window
		}
		hosts = append(hosts, u)
		if h.Name == w.plan.Generator {
			generator = u
		}
	}
	return hosts, generator
}
