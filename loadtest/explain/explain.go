// Package explain shows how a verdict was reached: as text with a curve for a
// terminal, and as an SVG. It is pure: what it shows is the analysis' own, and
// package results reads the files.
package explain

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"lab/loadtest/analysis"
)

// Text explains a result under its name: the verdict, the curve, every step, and
// why.
func Text(name string, r analysis.Result, o Options) string {
	e := analysis.Explain(r)
	return o.Paragraph(name) + header(r, e.Verdict, o) + "\n" + o.Plain(curve(r, e, o)) + "\n" + steps(e, o) + "\n" + reasons(r, e, o)
}

func header(r analysis.Result, v analysis.Verdict, o Options) string {
	var b strings.Builder
	row := analysis.Row("", v)
	line := func(name, format string, args ...any) {
		b.WriteString(o.hanging(fmt.Sprintf("%-15s", name), 15, fmt.Sprintf(format, args...)))
	}
	run := []string{r.RunID, r.Started, r.Engine + " engine"}
	if r.Target != "" {
		run = append(run, "against "+r.Target)
	}
	line("run", "%s", strings.Join(slices.DeleteFunc(run, func(s string) bool { return s == "" }), ", "))
	line("scenario", "%s, %g to %g req/s, digest %s", r.Scenario.Kind, lowest(r.Scenario), analysis.TopRPS(r.Scenario), v.ScenarioDigest)
	line("ceiling", "%s (%s)", withUnit(row.Ceiling), v.Status)
	line("what saturated", "%s", v.Wall)
	line("SLO capacity", "%s (p95 within %g ms, errors and drops within %g %%)", withUnit(v.SLOCapacity), r.Scenario.SLOP95Ms, 100*r.Scenario.SLOErrorRatio)
	line("at the knee", "%s", knee(v))
	if len(v.Runs) > 1 {
		var all []string
		for _, run := range v.Runs {
			all = append(all, fmt.Sprintf("%.4g", run.CeilingRPS))
		}
		line("runs", "%s req/s, apart by %.1f %%", strings.Join(all, ", "), 100*v.NoiseRatio)
	}
	if v.HighRPS > 0 {
		of := ""
		if len(v.Runs) < 2 {
			of = " within this one run: the next may be further off"
		}
		line("interval", "%.4g to %.4g req/s (90 %%)%s", v.LowRPS, v.HighRPS, of)
	}
	line("load", "%.0f s in %d steps%s", r.LoadSeconds, len(r.Steps), from(r))
	return b.String()
}

// from names the load generators, when there were several.
func from(r analysis.Result) string {
	var all []string
	for _, g := range r.Generators {
		all = append(all, fmt.Sprintf("%s (%.0f %%)", g.Host, 100*g.Ratio))
	}
	if len(all) == 0 {
		return ""
	}
	return ", shared by " + strings.Join(all, ", ")
}

// lowest is the lowest rate that a scenario offers.
func lowest(sc analysis.Scenario) float64 {
	if sc.Kind != analysis.KindRamp {
		return sc.FloorRPS
	}
	least := math.Inf(1)
	for _, stage := range sc.Stages {
		least = min(least, stage.RPS)
	}
	return least
}

// withUnit is a printed rate with its unit; that there is none has no unit.
func withUnit(rate string) string {
	if rate == "none" {
		return rate
	}
	return rate + " req/s"
}

func knee(v analysis.Verdict) string {
	if v.KneeRPS == 0 {
		return "none"
	}
	return fmt.Sprintf("%.4g req/s, p95 %.0f ms", v.KneeRPS, v.KneeP95Ms)
}

// steps is a line for each step. Why steps are left out, the same for many, is said
// once, below.
func steps(e analysis.Explanation, o Options) string {
	var b, notes strings.Builder
	b.WriteString(o.Paragraph("run phase     offered completed  p95 ms  hottest        sustained"))
	letters := map[string]string{}
	for _, s := range e.Steps {
		p95, hottest := "-", "-"
		if s.P95Ms > 0 {
			p95 = fmt.Sprintf("%.0f", s.P95Ms)
		}
		if s.HottestHost != "" {
			hottest = fmt.Sprintf("%s %.0f%%", s.HottestHost, 100*s.HottestCPURatio)
		}
		words := judged(s)
		if s.LeftOut != "" {
			if letters[s.LeftOut] == "" {
				letters[s.LeftOut] = string(rune('a' + len(letters)))
				notes.WriteString(o.hanging("", 4, fmt.Sprintf("(%s) left out, %s", letters[s.LeftOut], s.LeftOut)))
			}
			words += " (" + letters[s.LeftOut] + ")"
		}
		columns := fmt.Sprintf("%3d %-8s %8.4g %9.4g %7s  %-14s ", s.Run+1, s.Phase, s.OfferedRPS, s.CompletedRPS, p95, hottest)
		b.WriteString(o.hanging(columns, len([]rune(columns)), words))
	}
	return b.String() + notes.String()
}

func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

func judged(s analysis.StepExplanation) string {
	words := "yes"
	switch {
	case s.LeftOut == analysis.LeftOutCounted:
		return "-"
	case !s.Sustained:
		words = "no: " + s.Reason
	case !s.InSLO:
		words = "yes; outside the SLO"
	}
	if s.OnPlateau {
		words += "; on the plateau"
	}
	return words
}

func reasons(r analysis.Result, e analysis.Explanation, o Options) string {
	var b strings.Builder
	v := e.Verdict
	b.WriteString("why\n")
	say := func(format string, args ...any) { b.WriteString(o.hanging("  ", 4, fmt.Sprintf(format, args...))) }
	on, near, worst := 0, 0, 0.0
	for _, s := range e.Steps {
		if s.OnPlateau {
			on++
		}
		if s.NearCeiling {
			near++
		}
		worst = max(worst, s.LittlesResidual)
	}
	switch v.Status {
	case analysis.StatusFound:
		say("completed = min(λ, C) fits the steps best at the ceiling C: the mean of the %s on the plateau.", counted(on, "overloaded step"))
	case analysis.StatusRetrograde:
		say("past its peak the system completes less (%.4g req/s): the ceiling is the last rate that it sustained.", v.CollapsedRPS)
	case analysis.StatusCapReached:
		say("no two steps in a row failed up to the highest rate that the scenario allows.")
	case analysis.StatusSLOMissed:
		say("a step left the SLO before the system saturated: the ceiling is at least the last rate sustained.")
	}
	for _, reason := range v.Invalid {
		say("no number: %s", reason)
	}
	if worst > 0 {
		say("Little's law: in flight is rate × latency within %.0f %% in every steady step (above 10 %% is suspect).", math.Ceil(100*worst))
	}
	for _, host := range slices.Sorted(maps.Keys(v.CPUSecondsPerRequest)) {
		say("%s needs %.3g ms of CPU a request at the ceiling.", host, 1000*v.CPUSecondsPerRequest[host])
	}
	if len(e.Watched) > 0 {
		say("the wall was looked for in %s near the ceiling; at or above its threshold is marked *:", counted(near, "step"))
	}
	for _, w := range e.Watched {
		mark := " "
		if w.Wall {
			mark = "*"
		}
		say("%s %-10s %-22s %4.0f %%  (wall from %.0f %%)", mark, w.Host, w.Resource, 100*w.Ratio, 100*w.WallRatio)
	}
	for _, f := range v.Findings {
		say("also: %s", f.Sentence)
	}
	return b.String()
}
