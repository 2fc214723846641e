package analysis

import (
	"math"
	"slices"
)

const (
	minHeld     = 2
	maxHeld     = 12     // steps of the hold, while the plateau is not
	steadyError = 0.0045 // of its mean: the standard error of a plateau known well enough
	maxSettle   = 3      // times SettleSeconds: an autoscaler that is not done then never is
)

// settle overloads the target on, at the lowest rate at which the bracket failed,
// until the overload has lasted SettleSeconds: an autoscaler has its time to
// answer it before the ramp is walked. One that is seen to be at work gets more.
func settle(sc Scenario, bracket, held []Step) (Probe, bool) {
	over := failed(bracket)
	if len(over) == 0 || capHeld(sc, bracket) {
		return Probe{}, false
	}
	lasted := loadSeconds(sc, bracket[len(bracket)-trailingFailures(bracket):]) + loadSeconds(sc, held)
	all := slices.Concat(bracket, held)
	atWork := scaling(all[len(all)-1]) && lasted < maxSettle*sc.SettleSeconds
	return holdProbe(sc, lowest(over)), lasted < sc.SettleSeconds || atWork
}

// hold overloads the target for two more steps at the end, and on while the
// plateau is not known to half a percent; a retrograde system has none. Its rate is
// the ramp's highest, or the lowest at which the bracket failed, to be comparable
// with both.
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
	case held >= minHeld && overloaded(ramp[len(ramp)-1]) && (steady(history) || retrograde(history)):
		return Probe{}, true
	}
	return holdProbe(sc, top), false
}

func holdProbe(sc Scenario, rate float64) Probe {
	return Probe{0, PhaseHold, min(rate, sc.CapRPS), sc.StepSeconds, sc.StepDiscard}
}

// steady says whether the plateau is known well enough, by the spread of its steps.
func steady(history []Step) bool {
	all := rates(plateau(history))
	mean, squares := average(all), 0.0
	for _, v := range all {
		squares += (v - mean) * (v - mean)
	}
	n := float64(len(all))
	return n >= 2 && math.Sqrt(squares/(n-1)/n) <= steadyError*mean
}
