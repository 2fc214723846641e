// Package orders is how several load generators work as one. The one that leads
// orders each of the others to offer its share of every step from a common start,
// and adds up what they counted. The orders are HTTP, in a lab's own network: who
// gives one must know the stack's secret, and a generator loads no other target than
// the one it was set up for.
package orders

import (
	"errors"
	"fmt"
	"time"

	"lab/loadtest/analysis"
	"lab/loadtest/engine"
)

// StartLead is the time from a step's order to its first arrival: the order has to be
// there by then.
const StartLead = 500 * time.Millisecond

// IdleAfter is when a generator ends that nobody orders.
const IdleAfter = 2 * time.Minute

const (
	beat      = time.Second            // a generator gives a sign of life during a step
	silence   = 10 * time.Second       // without one it is gone; patient, since a saturated host is slow
	farStart  = 10 * time.Second       // a start that is further away is not of this clock
	lateStart = 200 * time.Millisecond // an order that comes so late after the start would measure its own burst
	callLimit = 30 * time.Second       // of an order that is no step: the target is asked once for each endpoint
	idleCheck = 100 * time.Millisecond // grain of IdleAfter
	maxBody   = 16 << 20               // bytes of an order or a report
	maxStep   = 3600                   // seconds
	maxRPS    = 1e6                    // of a step
)

// begin prepares a generator for a run.
type begin struct {
	RunID    string            `json:"runId"`
	Scenario analysis.Scenario `json:"scenario"`
	Share    engine.Share      `json:"share"`
}

// step orders a share of one step.
type step struct {
	RunID         string         `json:"runId"`
	Probe         analysis.Probe `json:"probe"`
	StartUnixNano int64          `json:"startUnixNano"` // of the first arrival, on the clock of who gets the order
}

// report is the answer to a step.
type report struct {
	Tally engine.Tally `json:"tally"`
	CPUs  float64      `json:"cpus"` // that the generator's process used, in the mean of the step
}

// validate checks what a step asks for.
func (s step) validate() error {
	p := s.Probe
	if !(p.OfferedRPS > 0 && p.OfferedRPS <= maxRPS && p.DiscardSeconds >= 0 && p.Seconds > p.DiscardSeconds && p.Seconds <= maxStep) {
		return fmt.Errorf("a step of %g req/s over %g s with %g s discarded", p.OfferedRPS, p.Seconds, p.DiscardSeconds)
	}
	return nil
}

// startOn is the order's start on this clock, with its monotonic reading.
func (s step) startOn(now time.Time) (time.Time, error) {
	away := time.Duration(s.StartUnixNano - now.UnixNano())
	switch {
	case away > farStart || away < -farStart:
		return now, fmt.Errorf("the start is %.1f s away: the clocks of the generators differ; let them set theirs by NTP", away.Seconds())
	case away < -lateStart:
		return now, fmt.Errorf("the order came %d ms after the start: the host or the network is overloaded", -away.Milliseconds())
	}
	return now.Add(away), nil
}

// errSilent is that a generator gave no sign of life for too long.
var errSilent = errors.New("no sign of life")
