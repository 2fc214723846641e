package engine

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"lab/loadtest/analysis"
)

const (
	bucket      = 100 * time.Millisecond // grain at which the number in flight is kept
	blockLength = 5 * time.Second        // grain of the completions, for the ceiling's interval
	shortBlock  = time.Second            // in a window that is too short for two blocks
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
	blocks    []int64                 // completed, in each blockLength of the window
	block     time.Duration           // their length
	intended  *hdrhistogram.Histogram // µs, from the intended start
	sent      *hdrhistogram.Histogram // µs, from the real send
	lag       *hdrhistogram.Histogram // µs, real send − intended start

	inFlight int64
	most     int64     // in flight, during the window
	changed  time.Time // when inFlight last changed
	area     []float64 // ∫ in flight dt over each bucket of the window, request seconds
}

func newMeter(p analysis.Probe, start time.Time) *meter {
	newHistogram := func() *hdrhistogram.Histogram {
		return hdrhistogram.New(1, int64(10*time.Minute/time.Microsecond), 3)
	}
	m := &meter{
		probe: p, start: start, changed: start, errors: map[string]int64{},
		from:     start.Add(seconds(p.DiscardSeconds)),
		until:    start.Add(seconds(p.Seconds)),
		intended: newHistogram(), sent: newHistogram(), lag: newHistogram(),
	}
	m.block = blockLength
	if m.until.Sub(m.from) < 2*blockLength {
		m.block = shortBlock
	}
	m.blocks = make([]int64, m.until.Sub(m.from)/m.block)
	m.area = make([]float64, (m.until.Sub(m.from)+bucket-1)/bucket)
	return m
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func (m *meter) inside(t time.Time) bool { return !t.Before(m.from) && t.Before(m.until) }

// arrive counts an arrival, begun or dropped.
func (m *meter) arrive(intended, now time.Time, dropped bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.inside(intended) {
		m.arrivals++
		if dropped {
			m.dropped++
		}
	}
	if !dropped {
		m.change(now, +1)
	}
}

// begin records how late a request was sent.
func (m *meter) begin(intended, sent time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed && m.inside(intended) {
		record(m.lag, sent.Sub(intended))
	}
}

// end counts an answer; kind is that of its error, or "".
func (m *meter) end(intended, sent, end time.Time, kind string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.change(end, -1)
	if m.closed || !m.inside(end) {
		return // drained after the step: credited to none
	}
	if kind != "" {
		m.failed++
		m.errors[kind]++
		return
	}
	m.completed++
	if i := int(end.Sub(m.from) / m.block); i < len(m.blocks) {
		m.blocks[i]++
	}
	record(m.intended, end.Sub(intended))
	record(m.sent, end.Sub(sent))
}

// change integrates the number in flight up to now, then changes it.
func (m *meter) change(now time.Time, by int64) {
	from, until := m.changed, now
	if from.Before(m.from) {
		from = m.from
	}
	if until.After(m.until) {
		until = m.until
	}
	for from.Before(until) {
		i := from.Sub(m.from) / bucket
		next := m.from.Add((i + 1) * bucket)
		if next.After(until) {
			next = until
		}
		m.area[i] += float64(m.inFlight) * next.Sub(from).Seconds()
		from = next
	}
	if now.After(m.changed) { // times are taken before the lock: they may come out of order
		m.changed = now
	}
	m.inFlight += by
	if m.inside(now) {
		m.most = max(m.most, m.inFlight)
	}
}

// close ends the count and gives what was measured.
func (m *meter) close() analysis.Step {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.change(m.until, 0)
	m.closed = true
	s := analysis.Step{
		Phase: m.probe.Phase, OfferedRPS: m.probe.OfferedRPS,
		Seconds:  m.probe.Seconds - m.probe.DiscardSeconds,
		Arrivals: m.arrivals, Completed: m.completed, Failed: m.failed, Dropped: m.dropped,
		SchedLagP50Ms: ms(m.lag.ValueAtQuantile(50)),
		Blocks:        m.blocks, BlockSeconds: m.block.Seconds(),
	}
	if len(m.errors) > 0 {
		s.Errors = m.errors
	}
	if m.completed > 0 {
		s.P50Ms, s.P95Ms, s.P99Ms = ms(m.intended.ValueAtQuantile(50)), ms(m.intended.ValueAtQuantile(95)), ms(m.intended.ValueAtQuantile(99))
		s.SendP95Ms = ms(m.sent.ValueAtQuantile(95))
		s.MeanMs = m.intended.Mean() / 1000
	}
	s.InFlightMean, s.BacklogSlopeRPS = m.backlog()
	s.InFlightMax = float64(m.most)
	return s
}

// backlog is the mean number in flight over the window, and its slope a second
// by least squares over the whole buckets.
func (m *meter) backlog() (mean, slope float64) {
	window := m.until.Sub(m.from)
	for _, a := range m.area {
		mean += a / window.Seconds()
	}
	whole := m.area[:window/bucket]
	levels := make([]float64, len(whole))
	for i, a := range whole {
		levels[i] = a / bucket.Seconds()
	}
	return mean, trend(levels, bucket.Seconds())
}

// trend is the least-squares slope a second of values spaced every seconds.
func trend(values []float64, every float64) float64 {
	n := float64(len(values))
	mean := 0.0
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
		return 0
	}
	return xy / xx
}

func record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(d.Microseconds(), 1), h.HighestTrackableValue())) // in range by construction
}

func ms(µs int64) float64 { return float64(µs) / 1000 }
