package analysis

import (
	"math"
	"slices"
	"strconv"
)

// The phases of a search.
const (
	PhaseBracket = "bracket"
	PhaseRamp    = "ramp"
)

const (
	bracketFactor  = 1.5 // between the probes of the bracket
	rampFrom       = 0.6 // of the bracket's estimate
	rampTo         = 1.3 // of the bracket's estimate
	rampSteps      = 11  // over that range
	maxRampSteps   = 22  // when the range had to be left upwards
	failuresToStop = 2   // consecutive: one bad step is noise
	overloadSteps  = 3   // consecutive failed ramp steps that may pin the plateau
	maxStepSeconds = 60  // a slow step is lengthened to hold Scenario.StepArrivals, up to here
	maxRampSeconds = 420 // from then on two failures are enough

	pinnedSpread      = 0.02   // the overloaded steps agree so well, or
	pinnedCompletions = 12_000 // counting noise of their sum, 1/√n, is below 1 %

	maxRefined = 2     // steps between the last sustained and the first failed one
	refinedGap = 1.025 // of the two rates: closer is close enough
)

// Probe is the next constant rate to offer.
type Probe struct {
	Phase          string
	OfferedRPS     float64
	Seconds        float64 // whole length, the discard included
	DiscardSeconds float64
}

// DefaultScenario is the search that the configuration starts from.
func DefaultScenario() Scenario {
	return Scenario{
		Kind: KindSearch, Engine: EngineBuiltin, FloorRPS: 10, CapRPS: 600, RiseRPS: 10,
		ProbeSeconds: 10, ProbeDiscard: 3, StepSeconds: 15, StepDiscard: 4, StepArrivals: 1000,
		MaxInFlight: 1000, TimeoutMs: 10_000, SLOP95Ms: 500, SLOErrorRatio: 0.01, Seed: 1,
		WarmupSeconds: 60, SettleSeconds: 60, Repeats: 3, Protocol: ProtocolHTTP1, KeepAlive: true,
	}
}

// Next is the search as a state machine: from the steps measured so far, in
// their order, it gives the next probe, or done. It has no clock and no state.
//
// The bracket multiplies the rate by 1.5 from the floor until two probes in a
// row fail or the cap holds. The ramp walks from 0.6 to 1.3 of the bracket's
// estimate, on upwards should nothing fail there, and ends early once three
// failed steps have pinned the plateau. Where the rate collapses instead, two more
// steps narrow the gap below. A cap that held in a short probe is
// offered once more as a full step.
func Next(sc Scenario, history []Step) (Probe, bool) {
	bracket, ramp := split(history)
	if silent(history) {
		return Probe{}, true
	}
	if len(ramp) == 0 {
		if p, more := nextBracket(sc, bracket); more {
			return p, false
		}
	}
	switch {
	case !anySustained(bracket):
		return Probe{}, true
	case !capHeld(sc, bracket):
		return nextRamp(sc, bracket, ramp)
	case len(ramp) == 0:
		return rampProbe(sc, sc.CapRPS), false
	case capHeld(sc, ramp[:1]):
		return Probe{}, true
	}
	return nextRamp(sc, bracket, ramp[1:])
}

func split(history []Step) (bracket, ramp []Step) {
	for _, s := range history {
		if s.Phase == PhaseRamp {
			ramp = append(ramp, s)
		} else {
			bracket = append(bracket, s)
		}
	}
	return bracket, ramp
}

func nextBracket(sc Scenario, bracket []Step) (Probe, bool) {
	probe := func(rate float64) (Probe, bool) {
		return Probe{PhaseBracket, min(sc.CapRPS, rate), sc.ProbeSeconds, sc.ProbeDiscard}, true
	}
	if len(bracket) == 0 {
		return probe(sc.FloorRPS)
	}
	failures := trailingFailures(bracket)
	last := bracket[len(bracket)-1].OfferedRPS
	switch {
	case failures >= failuresToStop || last >= sc.CapRPS && failures == 0:
		return Probe{}, false
	case last >= sc.CapRPS:
		return probe(sc.CapRPS) // once more: one failure is noise
	}
	return probe(roundRate(last * bracketFactor))
}

func nextRamp(sc Scenario, bracket, ramp []Step) (Probe, bool) {
	main := ramp[:climbed(ramp)]
	if rampDone(sc, main) {
		return refine(sc, slices.Concat(bracket, ramp), len(ramp)-len(main))
	}
	around := estimate(bracket)
	from, to := rampFrom*min(around, sc.CapRPS), min(rampTo*around, sc.CapRPS)
	return rampProbe(sc, from+(to-from)*float64(len(ramp))/(rampSteps-1)), false
}

// climbed is the length of the ramp's rising part.
func climbed(ramp []Step) int {
	for i := 1; i < len(ramp); i++ {
		if ramp[i].OfferedRPS < ramp[i-1].OfferedRPS {
			return i
		}
	}
	return len(ramp)
}

// refine halves the gap below a collapse: with a plateau the fit reads the
// ceiling off that, but a retrograde system has none and its last sustained rate
// is known to the ramp's spacing only.
func refine(sc Scenario, history []Step, refined int) (Probe, bool) {
	steps := judged(history)
	first := firstFailure(steps)
	if refined >= maxRefined || !retrograde(history) {
		return Probe{}, true
	}
	last := lastSustained(steps)
	if steps[first].OfferedRPS <= refinedGap*last {
		return Probe{}, true
	}
	return rampProbe(sc, (last+steps[first].OfferedRPS)/2), false
}

func rampProbe(sc Scenario, rate float64) Probe {
	rate = min(sc.CapRPS, roundRate(rate))
	seconds := sc.StepSeconds
	if longer := math.Ceil(sc.StepDiscard + float64(sc.StepArrivals)/rate); longer > seconds {
		seconds = max(seconds, min(longer, maxStepSeconds))
	}
	return Probe{PhaseRamp, rate, seconds, sc.StepDiscard}
}

// rampDone says whether the ramp has shown both sides of the knee, or never will.
func rampDone(sc Scenario, ramp []Step) bool {
	n, failures := len(ramp), trailingFailures(ramp)
	if n == 0 {
		return false
	}
	if ramp[n-1].OfferedRPS >= sc.CapRPS {
		once := n < 2 || ramp[n-2].OfferedRPS < sc.CapRPS
		return failures == 0 || failures >= failuresToStop || !once
	}
	seconds := 0.0
	for _, s := range ramp {
		seconds += s.Seconds + sc.StepDiscard
	}
	switch {
	case n >= maxRampSteps || failures == n && n >= overloadSteps:
		return true
	case n == rampSteps || seconds >= maxRampSeconds:
		return failures >= failuresToStop
	case n > rampSteps: // the wall is above where the bracket saw it
		return failures >= overloadSteps
	}
	return failures >= overloadSteps && pinned(ramp[n-failures:])
}

// pinned says whether overloaded steps tell the plateau to about a percent.
func pinned(overloaded []Step) bool {
	var rates []float64
	completed := int64(0)
	for _, s := range overloaded {
		rates = append(rates, s.CompletedRPS())
		completed += s.Completed
	}
	spread := slices.Max(rates) - slices.Min(rates)
	return completed >= pinnedCompletions || spread <= pinnedSpread*median(rates)
}

// estimate reads the ceiling off the bracket: an overloaded probe completes
// about what the system can, whatever was offered.
func estimate(bracket []Step) float64 {
	var overloaded []float64
	best := 0.0
	for _, s := range bracket {
		if ok, _ := Sustained(s); ok {
			best = max(best, s.OfferedRPS)
		} else {
			overloaded = append(overloaded, s.CompletedRPS())
		}
	}
	return max(median(overloaded), best)
}

// silent says whether the target stopped answering: nothing completed in the
// last two steps, or in the only one.
func silent(history []Step) bool {
	n := len(history)
	return n > 0 && noAnswer(history[max(0, n-failuresToStop):])
}

func noAnswer(steps []Step) bool {
	return len(steps) > 0 && !slices.ContainsFunc(steps, func(s Step) bool { return s.Completed > 0 })
}

func capHeld(sc Scenario, steps []Step) bool {
	return slices.ContainsFunc(steps, func(s Step) bool {
		ok, _ := Sustained(s)
		return ok && s.OfferedRPS >= sc.CapRPS
	})
}

func anySustained(steps []Step) bool {
	return slices.ContainsFunc(steps, func(s Step) bool { ok, _ := Sustained(s); return ok })
}

func trailingFailures(steps []Step) int {
	n := 0
	for i := len(steps) - 1; i >= 0; i-- {
		if ok, _ := Sustained(steps[i]); ok {
			break
		}
		n++
	}
	return n
}

// roundRate keeps rates readable: three significant digits.
func roundRate(rate float64) float64 {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(rate, 'g', 3, 64), 64)
	if err != nil {
		return rate // not a number: the plan was checked, so this can't be
	}
	return rounded
}

// median of the values; 0 for none.
func median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
