package analysis

import (
	"math"
	"slices"
	"strconv"
)

// The phases of a search. Every step of a fixed schedule is a ramp's.
const (
	PhaseBracket = "bracket"
	PhaseRamp    = "ramp"
	PhaseHold    = "hold"
)

const (
	bracketFactor  = 1.5  // between the probes of the bracket
	failuresToStop = 2    // consecutive: one bad step is noise
	overloadSteps  = 3    // consecutive failed ramp steps that may pin the plateau
	maxRampSteps   = 22   // when the range had to be left upwards
	maxStepSeconds = 60.0 // a slow step is lengthened to hold Scenario.StepArrivals, up to here
	maxRampSeconds = 420  // from then on two failures are enough

	pinnedSpread      = 0.02   // the overloaded steps agree so well, or
	pinnedCompletions = 12_000 // counting noise of their sum, 1/√n, is below 1 %

	maxRefined = 2     // steps between the last sustained and the first failed one
	refinedGap = 1.025 // of the two rates: closer is close enough

	minHeld     = 2
	maxHeld     = 8    // steps of the hold, while the plateau is not
	steadyError = 0.01 // of its mean: the standard error of a plateau known well enough

	roseSustained = 1.15 // of what overloaded steps completed: sustained, it says that the capacity rose
	roseCompleted = 1.10 // of the ceiling so far: completed by two overloaded steps, the same
	roundFrom     = 0.8  // of the capacity seen last: where the bracket of a new round begins
	minRoundSpace = 0.3  // of the run's time: less left is too little for a new round
)

// walk is the range of a ramp, as ratios of the estimate that it is laid around.
type walk struct {
	from, to float64
	steps    int
}

var (
	firstWalk  = walk{0.6, 1.3, 11}  // around a bracket's estimate
	slowWalk   = walk{0.75, 1.3, 7}  // the same in long steps, for which a run has less room
	repeatWalk = walk{0.85, 1.27, 8} // around the first run's ceiling
)

// Probe is the next constant rate to offer.
type Probe struct {
	Run            int // the repeat it belongs to, from 0
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
		WarmupSeconds: 60, SettleSeconds: 60, Repeats: 3,
		MaxInFlight: 1000, TimeoutMs: 10_000, SLOP95Ms: 500, SLOErrorRatio: 0.01, Seed: 1,
		Protocol: ProtocolHTTP1, KeepAlive: true,
	}
}

// nextSearch is the search within one run. around is the ceiling of the first
// run, 0 in that run itself.
//
// The bracket multiplies the rate by 1.5 from the floor
// until two probes in a row fail or the cap holds; a failure while the target
// warms up does not count. The ramp walks from 0.6 to 1.3 of the bracket's
// estimate, on upwards should nothing fail there, and ends early once three
// failed steps have pinned the plateau; where the rate collapses instead, two
// more steps narrow the gap below. The hold goes on overloading the target until
// it had SettleSeconds to add capacity. Whenever the capacity is seen to have
// risen, a new round begins. A cap that held in a short probe is offered once
// more as a full step. Repeats need no bracket.
func nextSearch(sc Scenario, around float64, run []Step) (Probe, bool) {
	if silent(run) {
		return Probe{}, true
	}
	round := considered(sc, run)
	left := budgetSeconds(sc) - loadSeconds(sc, run)
	if again, from := anotherRound(sc, around, round); again && left >= minRoundSpace*budgetSeconds(sc) {
		return bracketProbe(sc, from), false
	}
	p, done := nextInRound(sc, around, round)
	return p, done || p.Seconds > left
}

// anotherRound says whether what the round learned does not hold any more, and
// where the next one begins: the capacity rose, or a repeat's ramp, which had no
// bracket, started past the wall.
func anotherRound(sc Scenario, around float64, round []Step) (again bool, from float64) {
	bracket, ramp := split(round)
	if rose, to := risen(round); rose {
		return true, roundFrom * to
	}
	if around > 0 && len(bracket) == 0 && len(ramp) >= overloadSteps && !anySustained(ramp) {
		return true, max(sc.FloorRPS, roundFrom*median(rates(ramp)))
	}
	return false, 0
}

func nextInRound(sc Scenario, around float64, round []Step) (Probe, bool) {
	bracket, ramp := split(round)
	if around == 0 || len(bracket) > 0 {
		if len(ramp) == 0 {
			if p, more := nextBracket(sc, bracket); more {
				return p, false
			}
		}
		if !anySustained(bracket) {
			return Probe{}, true
		}
	}
	settled := 0
	for settled < len(ramp) && ramp[settled].Phase == PhaseHold {
		settled++
	}
	if settled == len(ramp) {
		if p, more := settle(sc, bracket, ramp); more {
			return p, false
		}
	}
	ramp = ramp[settled:]
	if capHeld(sc, bracket) || around >= sc.CapRPS {
		if len(ramp) == 0 {
			return rampProbe(sc, sc.CapRPS), false
		}
		if capHeld(sc, ramp[:1]) {
			return Probe{}, true
		}
		ramp = ramp[1:]
	}
	return nextRamp(sc, around, bracket, ramp)
}

// split parts the steps into the bracket and what came after it.
func split(history []Step) (bracket, ramp []Step) {
	for _, s := range history {
		if s.Phase == PhaseBracket {
			bracket = append(bracket, s)
		} else {
			ramp = append(ramp, s)
		}
	}
	return bracket, ramp
}

func bracketProbe(sc Scenario, rate float64) Probe {
	return Probe{0, PhaseBracket, min(sc.CapRPS, roundRate(rate)), sc.ProbeSeconds, sc.ProbeDiscard}
}

func nextBracket(sc Scenario, bracket []Step) (Probe, bool) {
	if len(bracket) == 0 {
		return Probe{0, PhaseBracket, min(sc.CapRPS, sc.FloorRPS), sc.ProbeSeconds, sc.ProbeDiscard}, true
	}
	failures := trailingFailures(bracket)
	last := bracket[len(bracket)-1].OfferedRPS
	switch {
	case failures >= failuresToStop || last >= sc.CapRPS && failures == 0:
		return Probe{}, false
	case last >= sc.CapRPS:
		return bracketProbe(sc, sc.CapRPS), true // once more: one failure is noise
	}
	return bracketProbe(sc, last*bracketFactor), true
}

func nextRamp(sc Scenario, around float64, bracket, ramp []Step) (Probe, bool) {
	w := repeatWalk
	if len(bracket) > 0 {
		around, w = estimate(bracket), firstWalk
		if around < rampSlow(sc) {
			w = slowWalk
		}
	}
	main := ramp[:climbed(ramp)]
	if rampDone(sc, w, main) {
		if p, done := refine(sc, slices.Concat(bracket, ramp), len(ramp)-len(main)); !done {
			return p, false
		}
		return hold(sc, bracket, ramp)
	}
	from, to := w.from*min(around, sc.CapRPS), min(w.to*around, sc.CapRPS)
	return rampProbe(sc, from+(to-from)*float64(len(main))/float64(w.steps-1)), false
}

// rampSlow is the rate below which a step is so long that the first walk takes
// more than its time.
func rampSlow(sc Scenario) float64 {
	return float64(sc.StepArrivals) / (maxRampSeconds/float64(firstWalk.steps) - sc.StepDiscard)
}

// settle overloads the target on, at the lowest rate at which the bracket failed,
// until the overload has lasted SettleSeconds: an autoscaler has its time to
// answer it before the ramp is walked.
func settle(sc Scenario, bracket, held []Step) (Probe, bool) {
	over := failed(bracket)
	if len(over) == 0 || capHeld(sc, bracket) {
		return Probe{}, false
	}
	lasted := loadSeconds(sc, bracket[len(bracket)-trailingFailures(bracket):]) + loadSeconds(sc, held)
	return holdProbe(sc, lowest(over)), lasted < sc.SettleSeconds
}

// hold overloads the target for two more steps at the end, and on while the
// plateau is not known to a percent. Its rate is the ramp's highest, or the
// lowest at which the bracket failed, to be comparable with both.
func hold(sc Scenario, bracket, ramp []Step) (Probe, bool) {
	held := 0
	top := lowest(failed(bracket))
	for _, s := range ramp {
		top = max(top, s.OfferedRPS)
		if s.Phase == PhaseHold {
			held++
		}
	}
	history := slices.Concat(bracket, ramp)
	switch {
	case sc.SettleSeconds <= 0 || firstFailure(judged(history)) < 0 || held >= maxHeld:
		return Probe{}, true
	case held >= minHeld && overloaded(ramp[len(ramp)-1]) && steady(history):
		return Probe{}, true
	}
	return holdProbe(sc, top), false
}

func holdProbe(sc Scenario, rate float64) Probe {
	return Probe{0, PhaseHold, min(rate, sc.CapRPS), sc.StepSeconds, sc.StepDiscard}
}

// lowest is the lowest rate of the steps; 0 for none.
func lowest(steps []Step) float64 {
	least := 0.0
	for _, s := range steps {
		if least == 0 || s.OfferedRPS < least {
			least = s.OfferedRPS
		}
	}
	return least
}

// steady says whether the plateau is known to 1 %, by the spread of its steps.
func steady(history []Step) bool {
	all := rates(plateau(history, ceiling(history)))
	mean, squares := average(all), 0.0
	for _, v := range all {
		squares += (v - mean) * (v - mean)
	}
	n := float64(len(all))
	return n >= 2 && math.Sqrt(squares/(n-1)/n) <= steadyError*mean
}

// climbed is the length of the ramp's rising part.
func climbed(ramp []Step) int {
	for i := 1; i < len(ramp); i++ {
		if ramp[i].OfferedRPS < ramp[i-1].OfferedRPS || ramp[i].Phase == PhaseHold {
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
	if refined >= maxRefined || history[len(history)-1].Phase == PhaseHold || !retrograde(history) {
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
	return Probe{0, PhaseRamp, rate, seconds, sc.StepDiscard}
}

// rampDone says whether the ramp has shown both sides of the knee, or never will.
func rampDone(sc Scenario, w walk, ramp []Step) bool {
	n, failures := len(ramp), trailingFailures(ramp)
	if n == 0 {
		return false
	}
	if ramp[n-1].OfferedRPS >= sc.CapRPS {
		once := n < 2 || ramp[n-2].OfferedRPS < sc.CapRPS
		return failures == 0 || failures >= failuresToStop || !once
	}
	switch {
	case n >= maxRampSteps || failures == n && n >= overloadSteps:
		return true
	case n == w.steps || loadSeconds(sc, ramp) >= maxRampSeconds:
		return failures >= failuresToStop
	case n > w.steps: // the wall is above where the bracket saw it
		return failures >= overloadSteps
	}
	return failures >= overloadSteps && pinned(ramp[n-failures:])
}

// pinned says whether overloaded steps tell the plateau to about a percent.
func pinned(overloaded []Step) bool {
	completed := int64(0)
	for _, s := range overloaded {
		completed += s.Completed
	}
	all := rates(overloaded)
	return completed >= pinnedCompletions || slices.Max(all)-slices.Min(all) <= pinnedSpread*median(all)
}

// estimate reads the ceiling off the bracket: an overloaded probe completes
// about what the system can, whatever was offered.
func estimate(bracket []Step) float64 {
	best := median(rates(failed(bracket)))
	for _, s := range bracket {
		if !overloaded(s) {
			best = max(best, s.OfferedRPS)
		}
	}
	return best
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
		return !overloaded(s) && s.OfferedRPS >= sc.CapRPS
	})
}

func anySustained(steps []Step) bool {
	return slices.ContainsFunc(steps, func(s Step) bool { return !overloaded(s) })
}

func trailingFailures(steps []Step) int {
	n := 0
	for i := len(steps) - 1; i >= 0; i-- {
		if !overloaded(steps[i]) {
			break
		}
		n++
	}
	return n
}

// rates are the completed rates of the steps.
func rates(steps []Step) []float64 {
	var all []float64
	for _, s := range steps {
		all = append(all, s.CompletedRPS())
	}
	return all
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
