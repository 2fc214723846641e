// Package engine is the built-in load generator: an open-loop scheduler over
// keep-alive HTTP/1.1 connections. Arrivals do not wait for answers; one that
// finds the in-flight cap full is dropped. Latency counts from the intended
// start, so that a stall is charged to every arrival it delayed.
package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"lab/loadtest/analysis"
)

// inFlightEvery is how often the number of requests in flight is sampled.
const inFlightEvery = 250 * time.Millisecond

// Engine offers the requests of one scenario to one target.
type Engine struct {
	target    *url.URL
	endpoints []request
	timeout   time.Duration
	cap       int
	random    *rand.Rand

	mu       sync.Mutex
	idle     []*worker
	live     int
	inFlight atomic.Int64
}

// New prepares an engine; it opens no connection yet.
func New(target string, sc analysis.Scenario) (*Engine, error) {
	u, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	if u.Port() == "" {
		u.Host = net.JoinHostPort(u.Hostname(), "80")
	}
	e := &Engine{
		target: u, cap: sc.MaxInFlight,
		timeout: time.Duration(sc.TimeoutMs * float64(time.Millisecond)),
		random:  rand.New(rand.NewPCG(uint64(sc.Seed), 0x6c6162)),
	}
	total := 0.0
	for _, endpoint := range sc.Endpoints {
		r := newRequest(u, endpoint)
		total += max(endpoint.Weight, 0)
		r.upTo = total
		e.endpoints = append(e.endpoints, r)
	}
	if total == 0 {
		return nil, errors.New("the endpoints' weights add up to 0")
	}
	return e, nil
}

// Check asks every endpoint once, so that a target that is down is known before
// any load.
func (e *Engine) Check() error {
	var errs []error
	for _, r := range e.endpoints {
		w := &worker{engine: e}
		if kind := w.do(r); kind != "" {
			errs = append(errs, errors.New(r.name+": "+kind))
		}
		w.close()
	}
	return errors.Join(errs...)
}

// Step offers a constant rate and measures it over the window after the discard.
// It returns early, with what it has, when ctx ends.
func (e *Engine) Step(ctx context.Context, p analysis.Probe) analysis.Step {
	m := newMeter(p)
	stopSampling := m.sampleInFlight(&e.inFlight)
	var pending sync.WaitGroup
	e.pace(ctx, p, m, &pending)
	end := m.start.Add(time.Duration(p.Seconds * float64(time.Second)))
	sleepUntil(ctx, end)
	stopSampling()
	m.close()
	step := m.step()
	e.drain(&pending)
	return step
}

// pace starts every arrival at its intended time. The thread is locked and
// sleeps in the kernel: the runtime's timers are too coarse.
func (e *Engine) pace(ctx context.Context, p analysis.Probe, m *meter, pending *sync.WaitGroup) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	n := int(p.OfferedRPS * p.Seconds)
	for i := range n {
		intended := m.start.Add(time.Duration(float64(i) / p.OfferedRPS * float64(time.Second)))
		if wait := time.Until(intended); wait > 0 {
			ts := syscall.NsecToTimespec(int64(wait))
			_ = syscall.Nanosleep(&ts, nil) // woken early, the request starts early by that much
		}
		if ctx.Err() != nil {
			return
		}
		m.arrive(intended)
		w := e.worker()
		if w == nil {
			m.drop(intended)
			continue
		}
		r := e.pick()
		pending.Add(1)
		e.inFlight.Add(1)
		w.jobs <- job{r, intended, m, pending}
	}
}

func (e *Engine) pick() request {
	x := e.random.Float64() * e.endpoints[len(e.endpoints)-1].upTo
	for _, r := range e.endpoints {
		if x < r.upTo {
			return r
		}
	}
	return e.endpoints[len(e.endpoints)-1]
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

// drain waits for what is still in flight: the next step starts from an idle
// system, and nothing of it is credited to the step.
func (e *Engine) drain(pending *sync.WaitGroup) {
	done := make(chan struct{})
	go func() { pending.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(e.timeout + time.Second):
	}
}

func sleepUntil(ctx context.Context, t time.Time) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Until(t)):
	}
}

// request is an endpoint, rendered.
type request struct {
	name string
	raw  []byte
	head bool
	upTo float64 // cumulative weight
}

func newRequest(u *url.URL, endpoint analysis.Endpoint) request {
	method := endpoint.Method
	if method == "" {
		method = "GET"
	}
	host := strings.TrimSuffix(u.Host, ":80")
	raw := method + " " + strings.TrimSuffix(u.Path, "/") + endpoint.Path + " HTTP/1.1\r\nHost: " + host + "\r\nUser-Agent: lab\r\n"
	if endpoint.Body != "" {
		raw += "Content-Type: application/json\r\nContent-Length: " + itoa(len(endpoint.Body)) + "\r\n"
	}
	return request{name: endpoint.Name, raw: []byte(raw + "\r\n" + endpoint.Body), head: method == "HEAD"}
}
