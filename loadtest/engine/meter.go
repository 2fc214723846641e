package engine

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"lab/loadtest/analysis"
)

// meter counts one step. Its window is [discard, length) of the step: arrivals
// belong to it by their intended start, answers by their end.
type meter struct {
	probe       analysis.Probe
	start       time.Time
	from, until time.Time

	mu        sync.Mutex
	closed    bool
	arrivals  int64
	completed int64
	failed    int64
	dropped   int64
	errors    map[string]int64
	intended  *hdrhistogram.Histogram // µs
	sent      *hdrhistogram.Histogram
	lag       *hdrhistogram.Histogram
	inFlight  []float64
}

func newMeter(p analysis.Probe) *meter {
	start := time.Now()
	m := &meter{
		probe: p, start: start, errors: map[string]int64{},
		from:     start.Add(time.Duration(p.DiscardSeconds * float64(time.Second))),
		until:    start.Add(time.Duration(p.Seconds * float64(time.Second))),
		intended: hdrhistogram.New(1, int64(10*time.Minute/time.Microsecond), 3),
		sent:     hdrhistogram.New(1, int64(10*time.Minute/time.Microsecond), 3),
		lag:      hdrhistogram.New(1, int64(10*time.Minute/time.Microsecond), 3),
	}
	return m
}

func (m *meter) inside(t time.Time) bool { return !t.Before(m.from) && t.Before(m.until) }

func (m *meter) arrive(intended time.Time) {
	if m.inside(intended) {
		m.mu.Lock()
		m.arrivals++
		m.mu.Unlock()
	}
}

func (m *meter) drop(intended time.Time) {
	if m.inside(intended) {
		m.mu.Lock()
		m.dropped++
		m.mu.Unlock()
	}
}

func (m *meter) complete(intended, sent, end time.Time, kind string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return // drained after the step: credited to none
	}
	if m.inside(intended) {
		record(m.lag, sent.Sub(intended))
	}
	if !m.inside(end) {
		return
	}
	if kind != "" {
		m.failed++
		m.errors[kind]++
		return
	}
	m.completed++
	record(m.intended, end.Sub(intended))
	record(m.sent, end.Sub(sent))
}

func record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(d.Microseconds(), 1), h.HighestTrackableValue())) // in range by construction
}

func (m *meter) close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
}

// sampleInFlight follows the number in flight during the window.
func (m *meter) sampleInFlight(n *atomic.Int64) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(inFlightEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case now := <-tick.C:
				if m.inside(now) {
					m.mu.Lock()
					m.inFlight = append(m.inFlight, float64(n.Load()))
					m.mu.Unlock()
				}
			}
		}
	}()
	return func() { close(done); <-ended }
}

// step is what was measured.
func (m *meter) step() analysis.Step {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := analysis.Step{
		Phase: m.probe.Phase, OfferedRPS: m.probe.OfferedRPS,
		Seconds:  m.probe.Seconds - m.probe.DiscardSeconds,
		Arrivals: m.arrivals, Completed: m.completed, Failed: m.failed, Dropped: m.dropped,
		SchedLagP50Ms: ms(m.lag.ValueAtQuantile(50)),
	}
	if len(m.errors) > 0 {
		s.Errors = m.errors
	}
	if m.completed > 0 {
		s.P50Ms, s.P95Ms, s.P99Ms = ms(m.intended.ValueAtQuantile(50)), ms(m.intended.ValueAtQuantile(95)), ms(m.intended.ValueAtQuantile(99))
		s.SendP95Ms = ms(m.sent.ValueAtQuantile(95))
		s.MeanMs = m.intended.Mean() / 1000
	}
	s.InFlightMean, s.BacklogSlopeRPS = trend(m.inFlight, inFlightEvery.Seconds())
	return s
}

func ms(µs int64) float64 { return float64(µs) / 1000 }

// trend is the mean of equally spaced values and their least-squares slope a second.
func trend(values []float64, every float64) (mean, slope float64) {
	n := float64(len(values))
	if n == 0 {
		return 0, 0
	}
	for _, v := range values {
		mean += v / n
	}
	var xy, xx float64
	for i, v := range values {
		x := (float64(i) - (n-1)/2) * every
		xy += x * (v - mean)
		xx += x * x
	}
	if xx == 0 {
		return mean, 0
	}
	return mean, xy / xx
}
