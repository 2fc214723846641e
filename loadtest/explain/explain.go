// Package explain shows how a verdict was reached: as text with a curve for a
// terminal, and as an SVG. It is pure: what it shows is the analysis' own.
package explain

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"lab/loadtest/analysis"
)

// Options are how the text is laid out.
type Options struct {
	Width int  // columns; 0 means 80
	ASCII bool // no characters beyond ASCII
}

// Text explains a result: the verdict, the curve, every step, and why.
func Text(r analysis.Result, o Options) string {
	if o.Width == 0 {
		o.Width = 80
	}
	e := analysis.Explain(r)
	text := header(r, e.Verdict) + "\n" + curve(r, e, o) + "\n" + steps(e) + "\n" + reasons(r, e)
	if o.ASCII {
		text = strings.NewReplacer("±", "+-", "≥", ">=", "≤", "<=", "●", "o", "○", "x", "·", ".", "─", "-", "│", "|", "┼", "+", "×", "x", "λ", "offered", "−", "-").Replace(text)
	}
	return text
}

func header(r analysis.Result, v analysis.Verdict) string {
	var b strings.Builder
	row := analysis.Row("", v)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-15s%s\n", name, fmt.Sprintf(format, args...))
	}
	line("run", "%s, %s, %s engine, against %s", r.RunID, r.Started, r.Engine, r.Target)
	line("scenario", "%s, %g to %g req/s, digest %s", r.Scenario.Kind, r.Scenario.FloorRPS, analysis.TopRPS(r.Scenario), v.ScenarioDigest)
	line("ceiling", "%s req/s (%s)", row.Ceiling, v.Status)
	line("what saturated", "%s", v.Wall)
	line("SLO capacity", "%s req/s (p95 within %g ms, errors and drops within %g %%)", v.SLOCapacity, r.Scenario.SLOP95Ms, 100*r.Scenario.SLOErrorRatio)
	line("at the knee", "%s", knee(v))
	if len(v.Runs) > 1 {
		var all []string
		for _, run := range v.Runs {
			all = append(all, fmt.Sprintf("%.4g", run.CeilingRPS))
		}
		line("runs", "%s req/s, apart by %.1f %%", strings.Join(all, ", "), 100*v.NoiseRatio)
	}
	if v.HighRPS > 0 {
		line("interval", "%.4g to %.4g req/s (90 %%)", v.LowRPS, v.HighRPS)
	}
	line("load", "%.0f s in %d steps", r.LoadSeconds, len(r.Steps))
	return b.String()
}

func knee(v analysis.Verdict) string {
	if v.KneeRPS == 0 {
		return "none"
	}
	return fmt.Sprintf("%.4g req/s, p95 %.0f ms", v.KneeRPS, v.KneeP95Ms)
}

func steps(e analysis.Explanation) string {
	var b strings.Builder
	b.WriteString("run phase     offered  completed   p95 ms  hottest         judged\n")
	for _, s := range e.Steps {
		p95, hottest := "-", "-"
		if s.P95Ms > 0 {
			p95 = fmt.Sprintf("%.0f", s.P95Ms)
		}
		if s.HottestHost != "" {
			hottest = fmt.Sprintf("%s %.0f%%", s.HottestHost, 100*s.HottestCPURatio)
		}
		fmt.Fprintf(&b, "%3d %-8s %8.4g  %9.4g  %7s  %-14s  %s\n", s.Run+1, s.Phase, s.OfferedRPS, s.CompletedRPS, p95, hottest, judged(s))
	}
	return b.String()
}

func judged(s analysis.StepExplanation) string {
	words := []string{"sustained"}
	if !s.Sustained {
		words[0] = "not sustained: " + s.Reason
	}
	switch {
	case s.LeftOut != "":
		words = append(words, "left out, "+s.LeftOut)
	case s.OnPlateau:
		words = append(words, "on the plateau")
	}
	if s.Sustained && !s.InSLO {
		words = append(words, "outside the SLO")
	}
	return strings.Join(words, "; ")
}

func reasons(r analysis.Result, e analysis.Explanation) string {
	var b strings.Builder
	v := e.Verdict
	b.WriteString("why\n")
	say := func(format string, args ...any) { fmt.Fprintf(&b, "  "+format+"\n", args...) }
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
		say("completed = min(λ, C) fits the steps best at the ceiling C: the mean of the %d overloaded steps on the plateau.", on)
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
		say("the wall was looked for in %d steps near the ceiling; at or above its threshold is marked *:", near)
	}
	for _, w := range e.Watched {
		mark := " "
		if w.Wall {
			mark = "*"
		}
		say("%s %-10s %-22s %4.0f %%  (threshold %.0f %%)", mark, w.Host, w.Resource, 100*w.Ratio, 100*w.WallRatio)
	}
	for _, f := range v.Findings {
		say("also: %s", f.Sentence)
	}
	return b.String()
}
