package k6

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Summary is what k6 hands to a script's handleSummary, one shape of three.
type Summary struct {
	metrics map[string]values
	seconds float64 // of the whole run
	lab     labSteps
}

// labSteps is what lab.js adds: how its steps were laid out.
type labSteps struct {
	MaxInFlight int    `json:"maxInFlight"`
	Steps       []Step `json:"steps"`
}

type values map[string]float64

// ParseSummary reads the shape that handleSummary is given. It rejects the two
// that --summary-export writes by name: one has no percentiles asked for, both
// are easily taken for the right one.
func ParseSummary(raw []byte) (Summary, error) {
	var shape struct {
		Metrics map[string]json.RawMessage `json:"metrics"`
		Results json.RawMessage            `json:"results"`
		State   struct {
			Milliseconds float64 `json:"testRunDurationMs"`
		} `json:"state"`
		Lab labSteps `json:"lab"`
	}
	if err := json.Unmarshal(raw, &shape); err != nil {
		return Summary{}, fmt.Errorf("read the k6 summary: %w", err)
	}
	const want = "; write the data of handleSummary instead, as lab.js does"
	if shape.Results != nil {
		return Summary{}, errors.New("the k6 summary is the machine-readable --summary-export (results.metrics[]), which has no p(99)" + want)
	}
	if len(shape.Metrics) == 0 {
		return Summary{}, errors.New("the k6 summary has no metrics: nothing ran, or the file is none of k6")
	}
	s := Summary{metrics: map[string]values{}, seconds: shape.State.Milliseconds / 1000, lab: shape.Lab}
	for name, raw := range shape.Metrics {
		var metric struct {
			Values values `json:"values"`
		}
		if err := json.Unmarshal(raw, &metric); err != nil {
			return Summary{}, fmt.Errorf("read the k6 summary: metric %s: %w", name, err)
		}
		if metric.Values == nil {
			return Summary{}, errors.New("the k6 summary is the legacy --summary-export (metrics without values)" + want)
		}
		s.metrics[name] = metric.Values
	}
	return s, nil
}

// has says whether k6 kept a metric; a sub-metric is kept, at 0, when a
// threshold names it.
func (s Summary) has(metric string) bool {
	_, ok := s.metrics[metric]
	return ok
}

// count of a counter. k6 leaves dropped_iterations out when none were: 0.
func (s Summary) count(metric string) int64 { return int64(s.metrics[metric]["count"]) }

// value of one of a metric's figures; 0 for none.
func (s Summary) value(metric, figure string) float64 { return s.metrics[metric][figure] }
