package main

import (
	"fmt"
	"math"
	"slices"
)

// The verdicts of a bar.
const (
	passed      = "pass"
	missed      = "MISSED"
	notMeasured = "not measured"
)

// bar is what the built-in engine must keep.
type bar struct {
	What    string  `json:"what"`
	Rule    string  `json:"rule"`
	Got     float64 `json:"got"` // in the unit of Rule; −1 when not measured
	Shown   string  `json:"shown"`
	Verdict string  `json:"verdict"`
}

// atMost is a bar that got must not be above.
func atMost(what string, got, limit float64, unit string) bar {
	b := bar{What: what, Rule: "≤ " + number(limit) + unit, Got: got, Shown: figure(got) + unit, Verdict: passed}
	if math.IsNaN(got) {
		b.Got, b.Shown, b.Verdict = unknown, "–", notMeasured
	} else if got > limit {
		b.Verdict = missed
	}
	return b
}

// atLeast is a bar that got must not be below.
func atLeast(what string, got, limit float64, unit string) bar {
	b := atMost(what, -got, -limit, unit)
	b.Rule = "≥ " + number(limit) + unit
	if b.Verdict != notMeasured {
		b.Got, b.Shown = got, figure(got)+unit
	}
	return b
}

// bars of the built-in engine over all rounds. Figures are medians; requests that
// were not sent or failed are counted over all rounds, since one is too many.
func bars(rows []row) []bar {
	cpu := row.cpuMsPer1000
	var all []bar
	for _, c := range []string{caseSlow, caseFast} {
		at := " at " + thousands(paces[c]) + "/s"
		lost := func(r row) float64 { return float64(r.NotSent + r.Dropped + r.Failed) }
		all = append(all,
			atMost("rate error"+at, median(rows, c, builtin, func(r row) float64 { return 100 * r.RateErrorRatio }), 0.5, " %"),
			atMost("dropped, failed or not sent"+at, sum(rows, c, builtin, lost), 0, ""),
			atMost("scheduling lag p50"+at, median(rows, c, builtin, func(r row) float64 { return r.LagP50Ms }), 0.2, " ms"))
	}
	return append(all,
		atMost("largest RSS at 5,000/s", median(rows, caseFast, builtin, func(r row) float64 { return r.RSSMiB * 1.048576 }), 40, " MB"),
		atMost("CPU at 5,000/s", pairedRatio(rows, caseFast, vegeta, cpu), 1, " × vegeta's"),
		atMost("CPU at 5,000/s", pairedRatio(rows, caseFast, k6, cpu), 0.5, " × k6's"),
		atMost("p95 of a frozen target, off theory", median(rows, caseFrozen, builtin, frozenError), 5, " %"),
		atLeast("closed-loop maximum", pairedRatio(rows, caseClosed, wrk, func(r row) float64 { return r.SeenRPS }), 0.75, " × wrk's"),
		atMost("ceiling, off the known capacity", median(rows, caseKnown, builtin, ceilingError), 2, " %"))
}

// frozenTheoryMs is the intended p95 of a target that stands still for a part of
// the time: arrivals meanwhile wait for the rest of it, evenly spread from all of it
// to nothing, so that 5 % of all arrivals wait longer than this.
func frozenTheoryMs(freezeSeconds float64) float64 {
	return 1000 * freezeSeconds * (1 - 0.05/frozenPart)
}

// frozenError is in percent, without sign.
func frozenError(r row) float64 { return 100 * math.Abs(r.P95Ms/frozenTheoryMs(r.FreezeSeconds)-1) }

// ceilingError is in percent, without sign; all of it without a ceiling.
func ceilingError(r row) float64 {
	if r.Ceiling.Status != "found" || r.CapacityRPS == 0 {
		return 100
	}
	return 100 * math.Abs(r.Ceiling.CeilingRPS/r.CapacityRPS-1)
}

// values of a figure over the rounds, in their order.
func values(rows []row, c, generator string, of func(row) float64) []float64 {
	var all []float64
	for _, r := range rows {
		if r.Case == c && r.Generator == generator {
			all = append(all, of(r))
		}
	}
	return all
}

// median of a figure over the rounds; NaN when there is none.
func median(rows []row, c, generator string, of func(row) float64) float64 {
	return middle(values(rows, c, generator, of))
}

func middle(all []float64) float64 {
	n := len(all)
	if n == 0 {
		return math.NaN()
	}
	all = slices.Sorted(slices.Values(all))
	return (all[(n-1)/2] + all[n/2]) / 2
}

func sum(rows []row, c, generator string, of func(row) float64) float64 {
	all := values(rows, c, generator, of)
	if len(all) == 0 {
		return math.NaN()
	}
	total := 0.0
	for _, v := range all {
		total += v
	}
	return total
}

// pairedRatio is the median over the rounds of builtin's figure ÷ another's in the
// same round: what changes on the machine between rounds cancels.
func pairedRatio(rows []row, c, other string, of func(row) float64) float64 {
	own, others := values(rows, c, builtin, of), values(rows, c, other, of)
	if len(own) != len(others) {
		return math.NaN()
	}
	for i := range own {
		own[i] /= others[i]
	}
	return middle(own)
}

// figure prints three significant digits.
func figure(v float64) string {
	switch {
	case math.IsNaN(v) || v == unknown:
		return "–"
	case math.Abs(v) >= 100:
		return thousands(v)
	}
	return fmt.Sprintf("%.3g", v)
}

// thousands prints a whole number with a comma.
func thousands(v float64) string {
	n := int64(math.Round(v))
	if n < 0 {
		return "-" + thousands(-v)
	}
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(float64(n/1000)), n%1000)
}
