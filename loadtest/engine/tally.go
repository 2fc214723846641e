package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"lab/loadtest/analysis"
)

// Tally is what one generator counted of a step. The tallies of several
// generators add up to what one that offered all arrivals would have counted:
// of their latencies the histograms are added, never percentiles averaged.
type Tally struct {
	Arrivals  int64            `json:"arrivals"`
	Completed int64            `json:"completed"`
	Failed    int64            `json:"failed"`
	Dropped   int64            `json:"dropped"`
	Errors    map[string]int64 `json:"errors,omitempty"` // by kind
	Blocks    []int64          `json:"blocks"`           // completed in each block of the window
	Area      []float64        `json:"area"`             // ∫ in flight dt over each bucket of the window, request seconds
	// InFlightMax is the most at once. Of several generators it is the sum of each
	// one's, an upper bound: they need not have been at their most together.
	InFlightMax int64     `json:"inFlightMax"`
	LagP50Ms    float64   `json:"lagP50Ms"` // median of real send − intended start; of several, the worst
	Intended    Histogram `json:"intended"` // µs, from the intended start
	Sent        Histogram `json:"sent"`     // µs, from the real send
}

// Histogram is one of durations in µs. As JSON it is the text of HdrHistogram's
// own V2 encoding, which keeps every count.
type Histogram struct{ *hdrhistogram.Histogram }

func newHistogram() Histogram {
	return Histogram{hdrhistogram.New(1, int64(10*time.Minute/time.Microsecond), 3)}
}

// MarshalJSON encodes the counts.
func (h Histogram) MarshalJSON() ([]byte, error) {
	text, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return nil, err
	}
	return json.Marshal(string(text))
}

// UnmarshalJSON decodes the counts.
func (h *Histogram) UnmarshalJSON(raw []byte) error {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return err
	}
	decoded, err := hdrhistogram.Decode([]byte(text))
	if err != nil {
		return fmt.Errorf("histogram: %w", err)
	}
	h.Histogram = decoded
	return nil
}

// Add counts what another generator counted of the same step.
func (t *Tally) Add(other Tally) error {
	if len(t.Blocks) != len(other.Blocks) || len(t.Area) != len(other.Area) {
		return fmt.Errorf("tallies of two steps: %d and %d blocks, %d and %d buckets", len(t.Blocks), len(other.Blocks), len(t.Area), len(other.Area))
	}
	if other.Intended.Histogram == nil || other.Sent.Histogram == nil {
		return errors.New("a tally without histograms")
	}
	t.Arrivals += other.Arrivals
	t.Completed += other.Completed
	t.Failed += other.Failed
	t.Dropped += other.Dropped
	t.InFlightMax += other.InFlightMax
	t.LagP50Ms = max(t.LagP50Ms, other.LagP50Ms)
	all := maps.Clone(t.Errors)
	for kind, n := range other.Errors {
		if all == nil {
			all = map[string]int64{}
		}
		all[kind] += n
	}
	t.Errors = all
	for i, n := range other.Blocks {
		t.Blocks[i] += n
	}
	for i, a := range other.Area {
		t.Area[i] += a
	}
	if left := t.Intended.Merge(other.Intended.Histogram) + t.Sent.Merge(other.Sent.Histogram); left > 0 {
		return fmt.Errorf("%d latencies fit into no bucket", left)
	}
	return nil
}

// Step is what was measured of a probe.
func (t Tally) Step(p analysis.Probe) analysis.Step {
	w := windowOf(p)
	s := analysis.Step{
		Phase: p.Phase, OfferedRPS: p.OfferedRPS,
		Seconds:  p.Seconds - p.DiscardSeconds,
		Arrivals: t.Arrivals, Completed: t.Completed, Failed: t.Failed, Dropped: t.Dropped,
		SchedLagP50Ms: t.LagP50Ms,
		Blocks:        t.Blocks, BlockSeconds: w.block.Seconds(),
	}
	if len(t.Errors) > 0 {
		s.Errors = t.Errors
	}
	if t.Completed > 0 {
		s.P50Ms, s.P95Ms, s.P99Ms = ms(t.Intended.ValueAtQuantile(50)), ms(t.Intended.ValueAtQuantile(95)), ms(t.Intended.ValueAtQuantile(99))
		s.SendP95Ms = ms(t.Sent.ValueAtQuantile(95))
		s.MeanMs = t.Intended.Mean() / 1000
	}
	s.InFlightMean, s.BacklogSlopeRPS = backlog(t.Area, w.length)
	s.InFlightMax = float64(t.InFlightMax)
	return s
}

// window is what a step is measured over, and the grains of its counts.
type window struct {
	length, block   time.Duration
	blocks, buckets int
}

func windowOf(p analysis.Probe) window {
	w := window{length: seconds(p.Seconds) - seconds(p.DiscardSeconds), block: blockLength}
	if w.length < 2*blockLength {
		w.block = shortBlock
	}
	w.blocks = int(w.length / w.block)
	w.buckets = int((w.length + bucket - 1) / bucket)
	return w
}
