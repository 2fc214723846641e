package k6

import (
	"cmp"
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

// Recording is a run that k6 made by itself, as its own output tells it.
type Recording struct {
	Scenario analysis.Scenario
	Steps    []analysis.Step
	Began    time.Time // zero: not told
	Unsound  string    // why no number can be read from it, "" when one can
}

// ReadSamples reads k6's samples (--out json). Their steps are those of given, a
// fixed schedule; without one, those of the tag rate that each request carries. A
// MaxInFlight of 0 is the most VUs that the run had.
func ReadSamples(r io.Reader, given *analysis.Scenario) (Recording, error) {
	all, err := parseSamples(r)
	if err != nil {
		return Recording{}, err
	}
	if given != nil {
		sc := *given
		sc.MaxInFlight = cmp.Or(sc.MaxInFlight, all.mostVUs())
		return newRecording(sc, all.scheduled(analysis.Schedule(sc), sc.MaxInFlight), all.began())
	}
	spans, err := all.spans()
	if err != nil {
		return Recording{}, err
	}
	sc := rampOf(all.mostVUs())
	for _, s := range spans {
		sc.Stages = append(sc.Stages, analysis.Stage{RPS: s.rate, Seconds: math.Round(s.until.Sub(s.from).Seconds())})
	}
	var steps []analysis.Step
	for i, probe := range analysis.Schedule(sc) {
		w := window{spans[i].from.Add(seconds(probe.DiscardSeconds)), spans[i].until}
		steps = append(steps, w.step(probe, all.requests, all.drops, all.vus, sc.MaxInFlight))
	}
	return newRecording(sc, steps, all.began())
}

func newRecording(sc analysis.Scenario, steps []analysis.Step, began time.Time) (Recording, error) {
	if len(steps) == 0 {
		return Recording{}, errors.New("the k6 samples end within the first step of the schedule")
	}
	return Recording{Scenario: sc, Steps: steps, Began: began}, nil
}

// rampOf is the scenario of a run that k6 stepped through by itself.
func rampOf(maxInFlight int) analysis.Scenario {
	sc := analysis.DefaultScenario()
	sc.Kind, sc.Engine, sc.Repeats, sc.MaxInFlight = analysis.KindRamp, analysis.EngineK6, 1, maxInFlight
	return sc
}

// span is the time in which arrivals of one rate began.
type span struct {
	rate        float64
	from, until time.Time
}

// spans are the steps by their tag: each from its first arrival to its last, begun
// or dropped. k6 does not tag what it drops, so drops between two steps are of the
// one before.
func (all samples) spans() ([]span, error) {
	byRate := map[float64]span{}
	for _, r := range all.requests {
		begin := r.begin()
		s, ok := byRate[r.rate]
		if !ok {
			s = span{r.rate, begin, begin}
		}
		if begin.Before(s.from) {
			s.from = begin
		}
		if begin.After(s.until) {
			s.until = begin
		}
		byRate[r.rate] = s
	}
	delete(byRate, 0)
	var spans []span
	for _, s := range byRate {
		spans = append(spans, s)
	}
	if len(spans) == 0 {
		return nil, errors.New("the k6 samples have no tag rate, which tells the steps apart; name their schedule with --scenario, or tag each request with its step's rate (docs/k6.md)")
	}
	slices.SortFunc(spans, func(a, b span) int { return a.from.Compare(b.from) })
	for i := range spans {
		if i > 0 && spans[i-1].until.Sub(spans[i].from) > time.Second {
			return nil, fmt.Errorf("the k6 samples of the rates %g and %g lie within each other: a rate that comes twice can't be told apart by its tag; name the schedule with --scenario", spans[i-1].rate, spans[i].rate)
		}
	}
	for i := range spans {
		s := &spans[i]
		for _, at := range all.drops {
			if at.After(s.until) && (i+1 == len(spans) || at.Before(spans[i+1].from)) {
				s.until = at
			}
		}
		s.until = s.until.Add(seconds(1 / s.rate))
		if s.until.Sub(s.from) < 2*time.Second {
			return nil, fmt.Errorf("the k6 samples hold less than 2 s of the rate %g: too short for a step", s.rate)
		}
	}
	return spans, nil
}

// ReadSummary reads the data of handleSummary. That of lab.js names its steps and
// gives all their figures. That of another script counts each request in the step
// that began it: it is shown, and carries no number.
func ReadSummary(raw []byte) (Recording, error) {
	s, err := ParseSummary(raw)
	if err != nil {
		return Recording{}, err
	}
	if len(s.lab.Steps) > 0 {
		return s.recording()
	}
	rates := s.taggedRates()
	if len(rates) == 0 {
		return Recording{}, errors.New("the k6 summary has no figures of single rates, and the mean of a whole run is no ceiling; give k6's samples (k6 run --out json=FILE), or use lab.js (docs/k6.md)")
	}
	sc := rampOf(int(s.value("vus_max", "max")))
	each := max(1, math.Round(s.seconds/float64(len(rates)))) // k6 does not say how long a step was
	var steps []analysis.Step
	for _, rate := range rates {
		sc.Stages = append(sc.Stages, analysis.Stage{RPS: rate, Seconds: each})
		steps = append(steps, s.byStart(rate, each))
	}
	return Recording{Scenario: sc, Steps: steps, Unsound: fmt.Sprintf(
		"k6's summary counts a request in the step that began it, so past the ceiling it shows what was offered and not what completed (%d arrivals were dropped, it does not say at which rate); "+
			"give k6's samples (k6 run --out json=FILE), or use lab.js", s.count("dropped_iterations"))}, nil
}

// recording reads a summary of lab.js.
func (s Summary) recording() (Recording, error) {
	sc := rampOf(s.lab.MaxInFlight)
	var probes []analysis.Probe
	for _, step := range s.lab.Steps {
		sc.Stages = append(sc.Stages, analysis.Stage{RPS: step.Rate, Seconds: step.Seconds})
		sc.StepDiscard = step.DiscardSeconds
		probes = append(probes, analysis.Probe{Phase: analysis.PhaseRamp, OfferedRPS: step.Rate, Seconds: step.Seconds, DiscardSeconds: step.DiscardSeconds})
	}
	measured, err := Params{Steps: s.lab.Steps, MaxInFlight: s.lab.MaxInFlight}.Read(s, probes)
	if err != nil {
		return Recording{}, err
	}
	r := Recording{Scenario: sc, Began: measured[0].Began}
	for _, m := range measured {
		r.Steps = append(r.Steps, m.Step)
	}
	return r, nil
}

// taggedRates are the rates that http_reqs is kept for, rising.
func (s Summary) taggedRates() []float64 {
	var all []float64
	for name := range s.metrics {
		tag, ok := strings.CutPrefix(name, "http_reqs{rate:")
		rate, err := strconv.ParseFloat(strings.TrimSuffix(tag, "}"), 64)
		if ok && err == nil && rate > 0 && s.count(name) > 0 {
			all = append(all, rate)
		}
	}
	slices.Sort(all)
	return all
}

// byStart is a step as k6 counts it, over about so many seconds.
func (s Summary) byStart(rate, seconds float64) analysis.Step {
	of := func(metric string) string {
		return fmt.Sprintf("%s{rate:%s}", metric, strconv.FormatFloat(rate, 'f', -1, 64))
	}
	n, duration := s.count(of("http_reqs")), of("http_req_duration")
	step := analysis.Step{Phase: analysis.PhaseRamp, OfferedRPS: rate, Seconds: seconds, Arrivals: n}
	step.Failed = int64(math.Round(s.value(of("http_req_failed"), "rate") * float64(n)))
	step.Completed = n - step.Failed
	if step.Completed > 0 {
		step.P50Ms, step.P95Ms, step.P99Ms = s.value(duration, "med"), s.value(duration, "p(95)"), s.value(duration, "p(99)")
		step.MeanMs, step.SendP95Ms = s.value(duration, "avg"), step.P95Ms
	}
	return step
}
