package engine

import (
	"sync"
	"time"

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
	start       time.Time
	from, until time.Time

	mu     sync.Mutex
	closed bool
	tally  Tally
	block  time.Duration // length of the tally's blocks
	lag    Histogram     // µs, real send − intended start

	inFlight int64
	changed  time.Time // when inFlight last changed
}

func newMeter(p analysis.Probe, start time.Time) *meter {
	w := windowOf(p)
	return &meter{
		start: start, changed: start,
		from:  start.Add(seconds(p.DiscardSeconds)),
		until: start.Add(seconds(p.Seconds)),
		block: w.block, lag: newHistogram(),
		tally: Tally{
			Errors: map[string]int64{}, Blocks: make([]int64, w.blocks), Area: make([]float64, w.buckets),
			Intended: newHistogram(), Sent: newHistogram(),
		},
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func (m *meter) inside(t time.Time) bool { return !t.Before(m.from) && t.Before(m.until) }

// arrive counts an arrival, begun or dropped.
func (m *meter) arrive(intended, now time.Time, dropped bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.inside(intended) {
		m.tally.Arrivals++
		if dropped {
			m.tally.Dropped++
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
		m.tally.Failed++
		m.tally.Errors[kind]++
		return
	}
	m.tally.Completed++
	if i := int(end.Sub(m.from) / m.block); i < len(m.tally.Blocks) {
		m.tally.Blocks[i]++
	}
	record(m.tally.Intended, end.Sub(intended))
	record(m.tally.Sent, end.Sub(sent))
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
		m.tally.Area[i] += float64(m.inFlight) * next.Sub(from).Seconds()
		from = next
	}
	if now.After(m.changed) { // times are taken before the lock: they may come out of order
		m.changed = now
	}
	m.inFlight += by
	if m.inside(now) {
		m.tally.InFlightMax = max(m.tally.InFlightMax, m.inFlight)
	}
}

// close ends the count and gives what was counted.
func (m *meter) close() Tally {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.change(m.until, 0)
	m.closed = true
	m.tally.LagP50Ms = ms(m.lag.ValueAtQuantile(50))
	return m.tally
}

// backlog is the mean number in flight over a window, and its slope a second by
// least squares over the whole buckets.
func backlog(area []float64, window time.Duration) (mean, slope float64) {
	for _, a := range area {
		mean += a / window.Seconds()
	}
	whole := area[:window/bucket]
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

func record(h Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(d.Microseconds(), 1), h.HighestTrackableValue())) // in range by construction
}

func ms(µs int64) float64 { return float64(µs) / 1000 }
