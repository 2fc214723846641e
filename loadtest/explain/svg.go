package explain

import (
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"strings"

	"lab/loadtest/analysis"
)

//go:embed curve.svg.tmpl
var curveTemplate string

var curveSVG = template.Must(template.New("curve").Parse(curveTemplate))

// The drawing's area, in its own units.
const (
	left, right         = 70.0, 700.0
	rateTop, rateBottom = 75.0, 300.0
	p95Top, p95Bottom   = 345.0, 480.0
)

type tick struct {
	At    string
	Label string
}

type panel struct {
	Name  string
	NameY string
	Grid  []tick
}

type mark struct{ X1, X2, Y1, Y2, Class, Label, LabelX, LabelY, Anchor string }

type dot struct{ X, Y, Class, Title string }

type drawing struct {
	Title, Subtitle, Description string
	Panels                       []panel
	Columns                      []tick
	AllFrom, AllTo               string
	Marks                        []mark
	Points                       []dot
}

// SVG draws a result: the completed rate and the p95 over the offered rate, with
// ceiling, knee and SLO. Its template is ours: it follows the reader's light or
// dark scheme and names every point, which no plotting library does.
func SVG(r analysis.Result, title string) (string, error) {
	e := analysis.Explain(r)
	top, slowest, fastest := extent(r, e)
	if top == 0 || fastest <= 0 {
		return "", fmt.Errorf("draw run %s: no step was measured", r.RunID)
	}
	top *= 1.05
	low, high := math.Floor(math.Log10(fastest)), math.Ceil(math.Log10(slowest))
	x := func(rps float64) string { return at(left + (right-left)*rps/top) }
	rateY := func(rps float64) float64 { return rateBottom - (rateBottom-rateTop)*rps/top }
	p95Y := func(ms float64) float64 {
		return p95Bottom - (p95Bottom-p95Top)*(math.Log10(ms)-low)/max(high-low, 1)
	}
	y := func(rps float64) string { return at(rateY(rps)) }
	delay := func(ms float64) string { return at(p95Y(ms)) }
	level := func(y float64, class, label string) mark {
		return mark{at(left), at(right), at(y), at(y), class, label, at(left + 6), at(y - 6), "start"}
	}
	d := drawing{
		Title: title, Subtitle: subtitle(e.Verdict), AllFrom: y(0), AllTo: y(top),
		Description: fmt.Sprintf("Completed requests per second and 95th percentile of latency over the offered rate, %d steps. %s", len(e.Steps), subtitle(e.Verdict)),
		Panels:      []panel{{"completed req/s", at(rateTop - 8), nil}, {"p95 in ms, from the intended start", at(p95Top - 8), nil}},
	}
	every := niceStep(top)
	for v := 0.0; v <= top; v += every {
		d.Columns = append(d.Columns, tick{x(v), fmt.Sprintf("%g", v)})
		d.Panels[0].Grid = append(d.Panels[0].Grid, tick{y(v), fmt.Sprintf("%g", v)})
	}
	for p := low; p <= high; p++ {
		d.Panels[1].Grid = append(d.Panels[1].Grid, tick{delay(math.Pow(10, p)), fmt.Sprintf("%g", math.Pow(10, p))})
	}
	d.Marks = append(d.Marks, level(p95Y(r.Scenario.SLOP95Ms), "slo", fmt.Sprintf("SLO %g ms", r.Scenario.SLOP95Ms)))
	if c := e.Verdict.CeilingRPS; c > 0 {
		d.Marks = append(d.Marks, level(rateY(c), "mark", "ceiling "+e.Verdict.Ceiling))
	}
	if k := e.Verdict.KneeRPS; k > 0 {
		d.Marks = append(d.Marks, mark{x(k), x(k), at(rateTop), at(p95Bottom), "slo", "knee", x(k), at(p95Bottom - 6), "end"})
	}
	for _, s := range e.Steps {
		class := "good"
		if !s.Sustained {
			class = "bad"
		}
		if s.LeftOut != "" {
			class += " out"
		}
		name := fmt.Sprintf("%s, %.4g req/s offered, %.4g completed, p95 %.0f ms, sustained: %s", s.Phase, s.OfferedRPS, s.CompletedRPS, s.P95Ms, judged(s))
		d.Points = append(d.Points, dot{x(s.OfferedRPS), y(s.CompletedRPS), class, name})
		if s.P95Ms > 0 {
			d.Points = append(d.Points, dot{x(s.OfferedRPS), delay(s.P95Ms), class, name})
		}
	}
	var b strings.Builder
	err := curveSVG.Execute(&b, d)
	return b.String(), err
}

func subtitle(v analysis.Verdict) string {
	return fmt.Sprintf("ceiling %s req/s, %s", analysis.Row("", v).Ceiling, v.Wall)
}

func at(v float64) string { return fmt.Sprintf("%.1f", v) }

// niceStep parts an axis at round numbers: 1, 2 or 5 times a power of ten.
func niceStep(top float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(top/4)))
	for _, factor := range []float64{1, 2, 5} {
		if top/(factor*unit) <= 8 {
			return factor * unit
		}
	}
	return 10 * unit
}
