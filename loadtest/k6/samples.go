package k6

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"lab/loadtest/analysis"
)

// Samples reads the steps off k6's own samples (--out json) of a script that does
// not use lab.js: its steps must follow each other from the first request on, as
// analysis.Schedule gives them. Steps that the run ended before, or within, are
// left out. maxInFlight is the script's maxVUs.
func Samples(r io.Reader, schedule []analysis.Probe, maxInFlight int) ([]analysis.Step, error) {
	all, err := parseSamples(r)
	if err != nil {
		return nil, err
	}
	return all.scheduled(schedule, maxInFlight), nil
}

// samples are what is kept of k6's: an end, a latency, a rate and a failure of each
// request (40 bytes of the 3.8 kB that k6 writes), never the text.
type samples struct {
	requests []request
	drops    []time.Time
	vus      []gauge
	vusMax   float64
}

func parseSamples(r io.Reader) (samples, error) {
	var all samples
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		var point sample
		if err := json.Unmarshal(lines.Bytes(), &point); err != nil {
			return all, fmt.Errorf("read the k6 samples: line %d: %w", n, err)
		}
		if point.Type == "Point" {
			all.add(point)
		}
	}
	if err := lines.Err(); err != nil {
		return all, fmt.Errorf("read the k6 samples: %w", err)
	}
	if len(all.requests) == 0 {
		return all, errors.New("the k6 samples hold no request")
	}
	return all, nil
}

func (all *samples) add(point sample) {
	at, value, tags := point.Data.Time, point.Data.Value, point.Data.Tags
	switch point.Metric {
	case "http_req_duration":
		rate, err := strconv.ParseFloat(tags.Rate, 64)
		if err != nil || rate <= 0 || math.IsInf(rate, 0) {
			rate = 0 // none, or lab.js' "warm"
		}
		good := strings.HasPrefix(tags.Status, "2") || strings.HasPrefix(tags.Status, "3")
		all.requests = append(all.requests, request{at, value, rate, !good})
	case "dropped_iterations":
		all.drops = append(all.drops, at)
	case "vus":
		all.vus = append(all.vus, gauge{at, value})
	case "vus_max":
		all.vusMax = max(all.vusMax, value)
	}
}

// mostVUs is the most that there were, or that were busy where k6 does not say.
func (all samples) mostVUs() int {
	most := all.vusMax
	for _, v := range all.vus {
		most = max(most, v.value)
	}
	return int(most)
}

// began is when the first request did.
func (all samples) began() time.Time {
	return slices.MinFunc(all.requests, func(a, b request) int { return a.begin().Compare(b.begin()) }).begin()
}

// ended is when the last arrival began, or was dropped.
func (all samples) ended() time.Time {
	last := slices.MaxFunc(all.requests, func(a, b request) int { return a.begin().Compare(b.begin()) }).begin()
	for _, at := range all.drops {
		if at.After(last) {
			last = at
		}
	}
	return last
}

// scheduled are the steps of a schedule whose first began with the first request.
func (all samples) scheduled(schedule []analysis.Probe, maxInFlight int) []analysis.Step {
	from, ended := all.began(), all.ended()
	var steps []analysis.Step
	for _, probe := range schedule {
		until := from.Add(seconds(probe.Seconds))
		if between := seconds(1/probe.OfferedRPS) + time.Second; until.Sub(ended) > between {
			break // the run was over: what is here of the step is not all of it
		}
		steps = append(steps, window{from.Add(seconds(probe.DiscardSeconds)), until}.step(probe, all.requests, all.drops, all.vus, maxInFlight))
		from = until
	}
	return steps
}

type sample struct {
	Type   string `json:"type"`
	Metric string `json:"metric"`
	Data   struct {
		Time  time.Time `json:"time"` // of a request: its end
		Value float64   `json:"value"`
		Tags  struct {
			Status string `json:"status"`
			Rate   string `json:"rate"` // of the step that began it, where the script says so
		} `json:"tags"`
	} `json:"data"`
}

type request struct {
	end    time.Time
	ms     float64
	rate   float64 // 0: not tagged
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
