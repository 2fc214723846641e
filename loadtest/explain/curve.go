package explain

import (
	"fmt"
	"math"
	"strings"

	"lab/loadtest/analysis"
)

const (
	curveHeight = 14
	delayHeight = 8
	marginLeft  = 9
)

// canvas is a grid of characters with an x axis from 0.
type canvas struct {
	cells [][]rune
	w, h  int
	x, y  func(float64) float64 // to 0..1
}

func newCanvas(w, h int, x, y func(float64) float64) *canvas {
	c := &canvas{w: w, h: h, x: x, y: y}
	for range h {
		c.cells = append(c.cells, []rune(strings.Repeat(" ", w)))
	}
	return c
}

// put draws a mark at a value; what lies outside the axes is left out.
func (c *canvas) put(x, y float64, mark rune) {
	column, row := int(math.Round(c.x(x)*float64(c.w-1))), int(math.Round((1-c.y(y))*float64(c.h-1)))
	if column >= 0 && column < c.w && row >= 0 && row < c.h {
		c.cells[row][column] = mark
	}
}

// level draws a horizontal line with its name at the right end.
func (c *canvas) level(y float64, mark rune, name string) {
	row := int(math.Round((1 - c.y(y)) * float64(c.h-1)))
	if row < 0 || row >= c.h {
		return
	}
	for i := range c.cells[row] {
		c.cells[row][i] = mark
	}
	copy(c.cells[row][max(0, c.w-len([]rune(name))):], []rune(name))
}

// lines are the rows with the labels of the top and the bottom.
func (c *canvas) lines(top, bottom string) string {
	var b strings.Builder
	for i, row := range c.cells {
		label := ""
		switch i {
		case 0:
			label = top
		case c.h - 1:
			label = bottom
		}
		fmt.Fprintf(&b, "%*s │%s\n", marginLeft-2, label, strings.TrimRight(string(row), " "))
	}
	return b.String()
}

// extent is what the axes have to hold: the highest rate, and the p95s with the
// SLO among them.
func extent(r analysis.Result, e analysis.Explanation) (top, slowest, fastest float64) {
	slowest, fastest = r.Scenario.SLOP95Ms, r.Scenario.SLOP95Ms
	for _, s := range e.Steps {
		top = max(top, s.OfferedRPS, s.CompletedRPS)
		if s.P95Ms > 0 {
			slowest, fastest = max(slowest, s.P95Ms), min(fastest, s.P95Ms)
		}
	}
	return top, slowest, fastest
}

// curve draws the completed rate and, below it, the p95 over the offered rate.
func curve(r analysis.Result, e analysis.Explanation, o Options) string {
	width := o.width() - marginLeft
	top, slowest, fastest := extent(r, e)
	if top == 0 || slowest <= 0 || fastest <= 0 {
		return "no step was measured\n"
	}
	linear := func(v float64) float64 { return v / top }
	low, high := math.Log(fastest), math.Log(slowest*1.05)
	logarithmic := func(v float64) float64 { return (math.Log(v) - low) / (high - low) }

	rate := newCanvas(width, curveHeight, linear, linear)
	for i := range width {
		rate.put(top*float64(i)/float64(width-1), top*float64(i)/float64(width-1), '·')
	}
	if e.Verdict.CeilingRPS > 0 {
		rate.level(e.Verdict.CeilingRPS, '─', " ceiling "+e.Verdict.Ceiling)
	}
	delay := newCanvas(width, delayHeight, linear, logarithmic)
	delay.level(r.Scenario.SLOP95Ms, '─', fmt.Sprintf(" SLO %g ms", r.Scenario.SLOP95Ms))
	for _, s := range e.Steps {
		mark := '●'
		if !s.Sustained {
			mark = '○'
		}
		rate.put(s.OfferedRPS, s.CompletedRPS, mark)
		if s.P95Ms > 0 {
			delay.put(s.OfferedRPS, s.P95Ms, mark)
		}
	}
	axis := strings.Repeat(" ", marginLeft-1) + "┼" + strings.Repeat("─", width) + "\n"
	scale := fmt.Sprintf("%*s%-*s%s\n", marginLeft, "", width-12, "0", fmt.Sprintf("%12.4g", top))
	return o.Paragraph("completed req/s over offered req/s  (● sustained  ○ not  · all that is offered)") +
		rate.lines(fmt.Sprintf("%.4g", top), "0") + axis + scale +
		"\n" + o.Paragraph("p95 in ms, logarithmic, from the intended start") +
		delay.lines(fmt.Sprintf("%.4g", slowest), fmt.Sprintf("%.4g", fastest)) + axis + scale
}
