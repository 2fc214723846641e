package k6

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"lab/loadtest/analysis"
)

const blockSeconds = 5

// kinds of failed responses that lab.js tells apart; "none" is an arrival whose
// script made no request.
var kinds = []string{"dns", "dial", "tls", "timeout", "reset", "protocol", "status-4xx", "status-5xx", "none"}

// Params is what lab.js reads.
type Params struct {
	Target      string              `json:"target"`
	Endpoints   []analysis.Endpoint `json:"endpoints"`
	TimeoutMs   float64             `json:"timeoutMs"`
	KeepAlive   bool                `json:"keepAlive"`
	MaxInFlight int                 `json:"maxInFlight"`
	Summary     string              `json:"summary"` // file that handleSummary writes
	Steps       []Step              `json:"steps"`
}

// Step is one of k6's scenarios: a constant rate.
type Step struct {
	Name           string  `json:"name"`
	Tag            string  `json:"tag"`  // value of the tag "rate"
	Rate           float64 `json:"rate"` // requests per second
	StartSeconds   float64 `json:"startSeconds"`
	Seconds        float64 `json:"seconds"` // the discard included
	DiscardSeconds float64 `json:"discardSeconds"`
	Blocks         int     `json:"blocks"` // whole blocks in the window
	BlockSeconds   float64 `json:"blockSeconds"`
}

// NewParams are the parameters of one k6 process. Its probes follow each other,
// each after the one before could end. Their rates differ: k6 keeps a step's
// metrics by its rate.
func NewParams(target string, sc analysis.Scenario, probes []analysis.Probe, summary string) (Params, error) {
	p := Params{Target: target, Endpoints: sc.Endpoints, TimeoutMs: sc.TimeoutMs, KeepAlive: sc.KeepAlive, MaxInFlight: sc.MaxInFlight, Summary: summary}
	start, seen := 0.0, map[string]bool{}
	for i, probe := range probes {
		s := Step{
			Name: fmt.Sprintf("step%d", i), Tag: strconv.FormatFloat(probe.OfferedRPS, 'f', -1, 64), Rate: probe.OfferedRPS,
			StartSeconds: start, Seconds: probe.Seconds, DiscardSeconds: probe.DiscardSeconds,
		}
		if seen[s.Tag] {
			return p, fmt.Errorf("k6: two steps of one process offer %s req/s: k6 keeps metrics by rate", s.Tag)
		}
		seen[s.Tag] = true
		if n := int((probe.Seconds - probe.DiscardSeconds) / blockSeconds); n >= 2 {
			s.Blocks, s.BlockSeconds = n, blockSeconds
		}
		start += math.Ceil(probe.Seconds + sc.TimeoutMs/1000 + 1)
		p.Steps = append(p.Steps, s)
	}
	return p, nil
}

// Measured is a step with when it began, by the generator's clock.
type Measured struct {
	analysis.Step
	Began time.Time
}

// Read is what a run of lab.js measured. Counts are divided by each step's own
// window; k6's rates are over the whole process. SchedLagP50Ms stays 0, unknown:
// k6 does not tell when an arrival was due, only when it began.
func (p Params) Read(s Summary, probes []analysis.Probe) ([]Measured, error) {
	var all []Measured
	for i, step := range p.Steps {
		m, err := p.step(s, step)
		if err != nil {
			return nil, err
		}
		m.Run, m.Phase = probes[i].Run, probes[i].Phase
		all = append(all, m)
	}
	return all, nil
}

func (p Params) step(s Summary, step Step) (Measured, error) {
	of := func(metric string) string { return fmt.Sprintf("%s{rate:%s}", metric, step.Tag) }
	if err := contract(s, step, of); err != nil {
		return Measured{}, err
	}
	m := Measured{Began: time.UnixMilli(int64(s.value(of("lab_began_ms"), "value")))}
	m.OfferedRPS, m.Seconds = step.Rate, step.Seconds-step.DiscardSeconds
	m.Completed, m.Failed = s.count(of("lab_completed")), s.count(of("lab_failed"))
	started := s.count(of("lab_started"))
	overflowed := s.count(fmt.Sprintf("dropped_iterations{scenario:%s}", step.Name))
	m.Dropped = dropped(int64(math.Round(step.Rate*m.Seconds)), started, overflowed)
	m.Arrivals = started + m.Dropped
	for _, kind := range kinds {
		if n := s.count(fmt.Sprintf("lab_failed{rate:%s,kind:%s}", step.Tag, kind)); n > 0 {
			if m.Errors == nil {
				m.Errors = map[string]int64{}
			}
			m.Errors[kind] = n
		}
	}
	for b := range step.Blocks {
		m.Blocks = append(m.Blocks, s.count(fmt.Sprintf("lab_completed{rate:%s,block:%d}", step.Tag, b)))
		m.BlockSeconds = step.BlockSeconds
	}
	if m.Completed > 0 {
		latency := of("lab_latency")
		m.P50Ms, m.P95Ms, m.P99Ms = s.value(latency, "p(50)"), s.value(latency, "p(95)"), s.value(latency, "p(99)")
		m.MeanMs = s.value(latency, "avg")
		m.SendP95Ms = s.value(of("http_req_duration"), "p(95)")
	}
	m.InFlightMean = s.value(of("lab_busy_ms"), "count") / 1000 / m.Seconds
	m.BacklogSlopeRPS = float64(started-m.Completed-m.Failed) / m.Seconds
	m.InFlightMax = s.value("vus", "max")
	if overflowed > 0 {
		m.InFlightMax = float64(p.MaxInFlight) // k6 drops an arrival only when every VU is busy
	}
	return m, nil
}

// contract says what a script must do that did not measure through lab.js.
func contract(s Summary, step Step, of func(string) string) error {
	const add = "; import { measured } from './lab.js', export default measured(() => http.get(...)) and export { options, handleSummary } from './lab.js'"
	switch {
	case !s.has(of("lab_started")) && s.has(of("http_reqs")):
		return fmt.Errorf("k6: the summary counts requests by the rate %s at which they began, also those that ended after their step: it can't carry a ceiling%s", step.Tag, add)
	case !s.has(of("lab_started")):
		return fmt.Errorf("k6: the summary has nothing of the rate %s: the script does not use lab.js%s", step.Tag, add)
	case s.count(of("lab_started")) == 0 && s.count("http_reqs") > 0:
		return fmt.Errorf("k6: no request was measured at %s req/s though %d were made: the default function is not wrapped%s", step.Tag, s.count("http_reqs"), add)
	case s.value(of("lab_began_ms"), "value") <= 0 && s.count(fmt.Sprintf("dropped_iterations{scenario:%s}", step.Name)) == 0:
		return fmt.Errorf("k6: nothing ran at %s req/s", step.Tag)
	}
	return nil
}

// dropped are the arrivals of the window that did not begin. k6 counts its own
// over the whole step, the discarded part too, so it says whether, and the number
// that were due says how many. What k6 neither began nor counts was lost by a
// generator too weak for the rate: also dropped. Few enough (k6 is less punctual on
// a busy machine) may as well have slipped over the window's edges and are not.
func dropped(due, started, overflowed int64) int64 {
	const slipRatio = 0.02 // of the arrivals due; the least tolerance of a sustained step
	missing := max(due-started, 0)
	if float64(missing-overflowed) > 2+slipRatio*float64(due) {
		return missing
	}
	return min(missing, overflowed)
}
