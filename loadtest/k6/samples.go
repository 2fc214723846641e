package k6

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"lab/loadtest/analysis"
)

// Samples reads the steps off k6's own samples (--out json) of a script that does
// not use lab.js: its steps must follow each other from the first request on, as
// analysis.Schedule gives them. It keeps an end, a latency and a failure for each
// request (24 bytes of the 3.8 kB that k6 writes), never the text. maxInFlight is
// the script's maxVUs.
func Samples(r io.Reader, schedule []analysis.Probe, maxInFlight int) ([]analysis.Step, error) {
	var requests []request
	var drops []time.Time
	var vus []gauge
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		var point sample
		if err := json.Unmarshal(lines.Bytes(), &point); err != nil {
			return nil, fmt.Errorf("read the k6 samples: line %d: %w", n, err)
		}
		if point.Type != "Point" {
			continue
		}
		at, value := point.Data.Time, point.Data.Value
		switch point.Metric {
		case "http_req_duration":
			requests = append(requests, request{at, value, !strings.HasPrefix(point.Data.Tags.Status, "2") && !strings.HasPrefix(point.Data.Tags.Status, "3")})
		case "dropped_iterations":
			drops = append(drops, at)
		case "vus":
			vus = append(vus, gauge{at, value})
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the k6 samples: %w", err)
	}
	if len(requests) == 0 {
		return nil, errors.New("the k6 samples hold no request")
	}
	first := slices.MinFunc(requests, func(a, b request) int { return a.begin().Compare(b.begin()) }).begin()
	var steps []analysis.Step
	for _, probe := range schedule {
		w := window{first.Add(seconds(probe.DiscardSeconds)), first.Add(seconds(probe.Seconds))}
		steps = append(steps, w.step(probe, requests, drops, vus, maxInFlight))
		first = w.until
	}
	return steps, nil
}

type sample struct {
	Type   string `json:"type"`
	Metric string `json:"metric"`
	Data   struct {
		Time  time.Time `json:"time"` // of a request: its end
		Value float64   `json:"value"`
		Tags  struct {
			Status string `json:"status"`
		} `json:"tags"`
	} `json:"data"`
}

type request struct {
	end    time.Time
	ms     float64
	failed bool
}

func (r request) begin() time.Time { return r.end.Add(-seconds(r.ms / 1000)) }

type gauge struct {
	at    time.Time
	value float64
}

type window struct{ from, until time.Time }

func (w window) holds(t time.Time) bool { return !t.Before(w.from) && t.Before(w.until) }

// overlap is the part of a request within the window, in seconds.
func (w window) overlap(r request) float64 {
	from, until := r.begin(), r.end
	if from.Before(w.from) {
		from = w.from
	}
	if until.After(w.until) {
		until = w.until
	}
	return max(0, until.Sub(from).Seconds())
}

func (w window) step(probe analysis.Probe, requests []request, drops []time.Time, vus []gauge, maxInFlight int) analysis.Step {
	s := analysis.Step{Run: probe.Run, Phase: probe.Phase, OfferedRPS: probe.OfferedRPS, Seconds: w.until.Sub(w.from).Seconds()}
	var latencies []float64
	started, sum := int64(0), 0.0
	for _, r := range requests {
		if w.holds(r.begin()) {
			started++
		}
		s.InFlightMean += w.overlap(r) / s.Seconds
		switch {
		case !w.holds(r.end):
		case r.failed:
			s.Failed++
		default:
			s.Completed++
			sum += r.ms
			latencies = append(latencies, r.ms)
		}
	}
	for _, at := range drops {
		if w.holds(at) {
			s.Dropped++
		}
	}
	for _, v := range vus {
		if w.holds(v.at) {
			s.InFlightMax = max(s.InFlightMax, v.value)
		}
	}
	if s.Dropped > 0 {
		s.InFlightMax = float64(maxInFlight) // k6 drops an arrival only when every VU is busy
	}
	s.Arrivals = started + s.Dropped
	s.BacklogSlopeRPS = float64(started-s.Completed-s.Failed) / s.Seconds
	if n := len(latencies); n > 0 {
		slices.Sort(latencies)
		at := func(p float64) float64 { return latencies[min(n-1, int(p*float64(n)))] }
		s.P50Ms, s.P95Ms, s.P99Ms, s.MeanMs = at(0.50), at(0.95), at(0.99), sum/float64(n)
		s.SendP95Ms = s.P95Ms
	}
	return s
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
