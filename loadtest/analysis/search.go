package analysis

// The phases of a search. Every step of a fixed schedule is a ramp's.
const (
	PhaseBracket = "bracket"
	PhaseRamp    = "ramp"
	PhaseHold    = "hold"
)

const (
	failuresToStop = 2 // consecutive: one bad step is noise
	overloadSteps  = 3 // consecutive failed ramp steps that may pin the plateau

	roseSustained = 1.15 // of what overloaded steps completed: sustained, it says that the capacity rose
	roseCompleted = 1.10 // of the ceiling so far: completed by two overloaded steps, the same
	roundFrom     = 0.8  // of the capacity seen last: where the bracket of a new round begins
	minRoundSpace = 0.3  // of the run's time: less left is too little for a new round
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
	// What rises while the generator is the wall is what the generator can do: another
	// round would not change the verdict.
	own := len(weakGenerator(sc, nil, failed(round))) > 0
	if again, from := anotherRound(sc, around, round); again && !own && left >= minRoundSpace*budgetSeconds(sc) {
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
