// Package engine is the built-in load generator: an open-loop scheduler over
// HTTP/1.1 or HTTP/2, with or without TLS. Arrivals do not wait for answers; one that
// finds the in-flight cap full is dropped. Latency counts from the intended
// start, so that a stall is charged to every arrival it delayed.
package engine

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/url"
	"runtime"
	"sync"
	"time"

	"lab/loadtest/analysis"
)

// Patience is how long a step may go on at most, beyond its length and one request's
// timeout.
const Patience = time.Second

// Engine offers the requests of one scenario to one target. Its steps run one
// at a time.
type Engine struct {
	address   string // host:port dialled
	endpoints []request
	timeout   time.Duration
	began     time.Time
	cap       int
	keepAlive bool
	posting   bool        // see posts
	tls       *tls.Config // nil without https
	http2     *http2      // nil for HTTP/1.1
	random    *rand.Rand
	share     Share

	mu   sync.Mutex
	idle []*worker // a stack: few connections stay warm, the rest are not touched
	live int
}

// New prepares an engine for a target, http(s)://HOST[:PORT][/PREFIX]; it opens
// no connection yet. Of https the certificate is checked against the system's
// roots.
func New(target string, sc analysis.Scenario) (*Engine, error) {
	return NewShare(target, sc, Share{})
}

// NewShare prepares one engine of several, which offers its share of the arrivals
// with its share of the in-flight cap.
func NewShare(target string, sc analysis.Scenario, share Share) (*Engine, error) {
	if err := share.Validate(); err != nil {
		return nil, err
	}
	u, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	port, ok := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	if !ok {
		return nil, fmt.Errorf("target %q: want http://HOST[:PORT] or https://HOST[:PORT]", target)
	}
	if u.Port() != "" {
		port = u.Port()
	}
	e := &Engine{
		address: net.JoinHostPort(u.Hostname(), port), cap: share.Of(sc.MaxInFlight), share: share, keepAlive: sc.KeepAlive,
		timeout: time.Duration(sc.TimeoutMs * float64(time.Millisecond)), began: time.Now(),
		random: rand.New(rand.NewPCG(uint64(sc.Seed), 0x6c6162)),
	}
	if u.Scheme == "https" {
		e.tls = &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12}
	}
	if sc.Protocol == analysis.ProtocolHTTP2 {
		e.http2 = newHTTP2(e.tls)
	}
	total := 0.0
	for _, endpoint := range sc.Endpoints {
		r, err := newRequest(u, endpoint, sc.KeepAlive)
		if err != nil {
			return nil, err
		}
		total += max(endpoint.Weight, 0)
		r.upTo = total
		e.endpoints = append(e.endpoints, r)
	}
	if total == 0 {
		return nil, errors.New("the endpoints' weights add up to 0")
	}
	e.posting = e.posts()
	return e, nil
}

// Check asks every endpoint once, one after the other, so that a target that is
// down is known before any load. The answer is a step of the phase "check", with
// the endpoints that failed as an error.
func (e *Engine) Check() (analysis.Step, error) {
	var errs []error
	start := time.Now()
	s := analysis.Step{Phase: "check", Arrivals: int64(len(e.endpoints)), Errors: map[string]int64{}}
	for i := range e.endpoints {
		w := &worker{engine: e}
		if kind := w.do(&e.endpoints[i], time.Now(), false); kind != "" {
			s.Failed++
			s.Errors[kind]++
			errs = append(errs, fmt.Errorf("%s: %s", e.endpoints[i].name, kind))
		} else {
			s.Completed++
		}
		w.close()
	}
	s.Seconds = math.Ceil(time.Since(start).Seconds()*1000) / 1000
	s.OfferedRPS = float64(s.Arrivals) / s.Seconds
	return s, errors.Join(errs...)
}

// Step offers a constant rate from now on and measures it over the window after
// the discard.
func (e *Engine) Step(ctx context.Context, p analysis.Probe) analysis.Step {
	return e.Count(ctx, p, time.Now()).Step(p)
}

// Count offers this engine's share of a constant rate, whose first arrival is due
// at start, and counts it over the window after the discard. It then waits for
// what is still in flight, and credits none of that to the step. It returns early,
// with what it has, when ctx ends.
func (e *Engine) Count(ctx context.Context, p analysis.Probe, start time.Time) Tally {
	m := newMeter(p, start)
	var pending sync.WaitGroup
	e.pace(ctx, p, m, &pending)
	select {
	case <-ctx.Done():
	case <-time.After(time.Until(m.until)):
	}
	tally := m.close()
	e.drain(ctx, &pending)
	return tally
}

// Close ends the idle connections.
func (e *Engine) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, w := range e.idle {
		w.end()
	}
	e.live -= len(e.idle)
	e.idle = nil
	if e.http2 != nil {
		e.http2.transport.CloseIdleConnections()
	}
}

// pace starts every arrival at its intended time, and the late ones at once. It
// sleeps in the kernel: the runtime's timers are too coarse. It is not bound to a
// thread, and steps aside after each arrival: what became runnable meanwhile runs on
// its thread at once. Bound to one, another thread was woken to find it.
func (e *Engine) pace(ctx context.Context, p analysis.Probe, m *meter, pending *sync.WaitGroup) {
	n := int(math.Ceil(p.OfferedRPS*p.Seconds - 1e-9))
	turns := newTurns(e.share.Weights)
	for i := range n {
		// The endpoint is drawn for every arrival, also another's or a dropped one: all
		// generators walk one schedule.
		chosen := e.pick()
		if turns.next() != e.share.Index {
			continue
		}
		intended := m.start.Add(time.Duration(float64(i) / p.OfferedRPS * float64(time.Second)))
		if !sleepUntil(ctx, intended) {
			return
		}
		w := e.worker()
		now := time.Now()
		m.arrive(intended, now, w == nil)
		if w == nil {
			continue
		}
		pending.Add(1)
		w.give(job{chosen, intended, now, m, pending})
		runtime.Gosched()
	}
}

func (e *Engine) pick() *request {
	x := e.random.Float64() * e.endpoints[len(e.endpoints)-1].upTo
	for i := range e.endpoints {
		if x < e.endpoints[i].upTo {
			return &e.endpoints[i]
		}
	}
	return &e.endpoints[len(e.endpoints)-1]
}

// worker is the most recently idle worker, a new one, or nil when the in-flight
// cap is full.
func (e *Engine) worker() *worker {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := len(e.idle); n > 0 {
		w := e.idle[n-1]
		e.idle = e.idle[:n-1]
		return w
	}
	if e.live >= e.cap {
		return nil
	}
	e.live++
	w := &worker{engine: e, jobs: make(chan job, 1)}
	go w.serve()
	return w
}

func (e *Engine) rest(w *worker) {
	e.mu.Lock()
	e.idle = append(e.idle, w)
	e.mu.Unlock()
}

// drain waits for what is still in flight, so that the next step starts from an
// idle system. A request ends by its timeout at the latest.
func (e *Engine) drain(ctx context.Context, pending *sync.WaitGroup) {
	done := make(chan struct{})
	go func() { pending.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
	case <-time.After(e.timeout + Patience):
	}
}
