package explain

import (
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"

	"lab/loadtest/analysis"
)

//go:embed curve.svg.tmpl
var curveTemplate string

var curveSVG = template.Must(template.New("curve").Parse(curveTemplate))

// The drawing is 400 units wide, of which a phone shows each as a pixel: text is 12
// there. Wider pictures get smaller text, by the template's CSS, in the same places.
const (
	left, right         = 46.0, 388.0
	rateTop, rateBottom = 32.0, 192.0 // below the heading
	p95Top, p95Bottom   = 230.0, 330.0
	footHeight          = 38.0
	titleChars          = 42 // in a line
	subtitleChars       = 58
	mostTicks           = 7
)

// at is a coordinate.
type at float64

func (a at) String() string { return fmt.Sprintf("%.1f", float64(a)) }

type tick struct {
	At    at
	Label string
}

type line struct {
	Y           at
	Class, Text string
}

type panel struct {
	Name               string
	NameY, Top, Bottom at
	Grid               []tick
}

type mark struct {
	X1, X2, Y1, Y2 at
	Class          string
}

type dot struct {
	X, Y         at
	Class, Title string
}

type drawing struct {
	ID, Title, Description string
	Heading                []line
	Height, Top, Ends      at
	Panels                 []panel
	Columns                []tick
	AllFrom, AllTo         at
	Marks                  []mark
	Names                  []name
	Points                 []dot
	Dimmed                 bool // some points are
}

// axes place values in the drawing: the rate linear, the p95 logarithmic over whole
// powers of ten.
type axes struct{ top, low, high float64 }

func newAxes(top, slowest, fastest float64) axes {
	return axes{1.05 * top, math.Floor(math.Log10(fastest)), math.Ceil(math.Log10(slowest))}
}

func (a axes) x(rps float64) float64     { return left + (right-left)*rps/a.top }
func (a axes) rateY(rps float64) float64 { return rateBottom - (rateBottom-rateTop)*rps/a.top }
func (a axes) p95Y(ms float64) float64 {
	return p95Bottom - (p95Bottom-p95Top)*(math.Log10(ms)-a.low)/max(a.high-a.low, 1)
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
	a := newAxes(top, slowest, fastest)
	said := fmt.Sprintf("Ceiling %s req/s, %s", analysis.Row("", e.Verdict).Ceiling, e.Verdict.Wall)
	d := drawing{
		ID: r.RunID, Title: title,
		Description: fmt.Sprintf("Completed requests per second and 95th percentile of latency over the offered rate, %d steps. %s.", len(e.Steps), said),
		AllFrom:     at(a.rateY(0)), AllTo: at(a.rateY(a.top)), Ends: at(p95Bottom),
	}
	d.head(title, said)
	d.grid(a)
	d.points(e, a)
	d.marks(r, e.Verdict, a)
	var b strings.Builder
	err := curveSVG.Execute(&b, d)
	return b.String(), err
}

// head puts title and subtitle on top, in as many lines as they need.
func (d *drawing) head(title, subtitle string) {
	y := 6.0
	put := func(text, class string, chars int, height float64) {
		for _, text := range folded(text, chars) {
			y += height
			d.Heading = append(d.Heading, line{at(y), class, text})
		}
	}
	put(title, "title", titleChars, 18)
	put(subtitle, "soft", subtitleChars, 16)
	y += 22
	d.Top, d.Height = at(y), at(y+p95Bottom+footHeight)
}

func (d *drawing) grid(a axes) {
	rate := panel{Name: "completed req/s", NameY: at(rateTop - 12), Top: at(rateTop), Bottom: at(rateBottom)}
	p95 := panel{Name: "p95 in ms, from the intended start", NameY: at(p95Top - 12), Top: at(p95Top), Bottom: at(p95Bottom)}
	every := niceStep(a.top)
	for v := 0.0; v <= a.top; v += every {
		d.Columns = append(d.Columns, tick{at(a.x(v)), number(v)})
		rate.Grid = append(rate.Grid, tick{at(a.rateY(v)), number(v)})
	}
	for p := a.low; p <= a.high; p++ {
		ms := math.Pow(10, p)
		p95.Grid = append(p95.Grid, tick{at(a.p95Y(ms)), number(ms)})
	}
	d.Panels = []panel{rate, p95}
}

// marks are the ceiling, the SLO and the knee.
func (d *drawing) marks(r analysis.Result, v analysis.Verdict, a axes) {
	if x := a.x(v.KneeRPS); v.KneeRPS > 0 {
		for _, p := range d.Panels {
			d.Marks = append(d.Marks, mark{at(x), at(x), p.Top, p.Bottom, "knee"})
		}
		d.name("knee", []box{ // nothing completes at a panel's lower edge
			{x + 5, rateBottom - 6, "start"}, {x - 5, rateBottom - 6, "end"}, {x + 5, rateTop + 12, "start"},
		})
	}
	level := func(y float64, class, text string) {
		d.Marks = append(d.Marks, mark{at(left), at(right), at(y), at(y), class})
		d.name(text, []box{ // rates and latencies are lower at the left
			{left + 4, y - 6, "start"}, {left + 4, y + 15, "start"}, {right - 4, y + 15, "end"}, {right - 4, y - 6, "end"},
			{(left + right) / 2, y - 6, "middle"}, {(left + right) / 2, y + 15, "middle"},
		})
	}
	level(a.p95Y(r.Scenario.SLOP95Ms), "slo", fmt.Sprintf("SLO %g ms", r.Scenario.SLOP95Ms))
	if v.CeilingRPS > 0 {
		level(a.rateY(v.CeilingRPS), "mark", "ceiling "+v.Ceiling)
	}
}

func (d *drawing) points(e analysis.Explanation, a axes) {
	for _, s := range e.Steps {
		class, run, why := "good", "", ""
		if !s.Sustained {
			class = "bad"
		}
		if s.LeftOut != "" {
			class, why, d.Dimmed = class+" out", "; left out, "+s.LeftOut, true
		}
		if len(e.Verdict.Runs) > 1 {
			run = fmt.Sprintf("run %d, ", s.Run+1)
		}
		said := fmt.Sprintf("%s%s, %.4g req/s offered, %.4g completed, p95 %.0f ms, sustained: %s%s", run, s.Phase, s.OfferedRPS, s.CompletedRPS, s.P95Ms, judged(s), why)
		d.Points = append(d.Points, dot{at(a.x(s.OfferedRPS)), at(a.rateY(s.CompletedRPS)), class, said})
		if s.P95Ms > 0 {
			d.Points = append(d.Points, dot{at(a.x(s.OfferedRPS)), at(a.p95Y(s.P95Ms)), class, said})
		}
	}
}

// folded are the lines of a text, broken at blanks.
func folded(text string, chars int) []string {
	var lines []string
	for _, word := range strings.Fields(text) {
		last := len(lines) - 1
		if last >= 0 && len([]rune(lines[last]))+1+len([]rune(word)) <= chars {
			lines[last] += " " + word
			continue
		}
		lines = append(lines, word)
	}
	return lines
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

// niceStep parts an axis at round numbers: 1, 2 or 5 times a power of ten.
func niceStep(top float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(top/mostTicks)))
	for _, factor := range []float64{1, 2, 5} {
		if top/(factor*unit) <= mostTicks {
			return factor * unit
		}
	}
	return 10 * unit
}
