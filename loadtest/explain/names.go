package explain

import "slices"

// Sizes of a name in the drawing, of the largest text that a reader may get: a
// browser's fonts differ, and few are wider.
const (
	charWidth  = 7.0
	charAbove  = 10.0 // above the line it stands on
	charBelow  = 3.0
	dotRadius  = 5.5
	nameMargin = 1.0
)

type name struct {
	X, Y         at
	Anchor, Text string
}

// box is where a name may be put: x is its start, middle or end, y the line that it
// stands on.
type box struct {
	x, y   float64
	anchor string
}

// edges are those of a text put there.
func (b box) edges(text string) (x1, y1, x2, y2 float64) {
	width := charWidth * float64(len([]rune(text)))
	x1 = b.x
	switch b.anchor {
	case "end":
		x1 -= width
	case "middle":
		x1 -= width / 2
	}
	return x1 - nameMargin, b.y - charAbove, x1 + width + nameMargin, b.y + charBelow
}

// name puts a text at the place that covers the fewest points and names, the first
// of equal ones.
func (d *drawing) name(text string, places []box) {
	best := slices.MinFunc(places, func(a, b box) int { return d.covered(text, a) - d.covered(text, b) })
	d.Names = append(d.Names, name{at(best.x), at(best.y), best.anchor, text})
}

// covered counts what a text would lie upon. Outside the panels counts as all.
func (d *drawing) covered(text string, place box) int {
	x1, y1, x2, y2 := place.edges(text)
	n := 0
	for _, p := range d.Points {
		x, y := float64(p.X), float64(p.Y)
		if x > x1-dotRadius && x < x2+dotRadius && y > y1-dotRadius && y < y2+dotRadius {
			n++
		}
	}
	for _, other := range d.Names {
		ox1, oy1, ox2, oy2 := box{float64(other.X), float64(other.Y), other.Anchor}.edges(other.Text)
		if ox1 < x2 && ox2 > x1 && oy1 < y2 && oy2 > y1 {
			n++
		}
	}
	inside := x1 >= left && x2 <= right && (y1 >= rateTop && y2 <= rateBottom || y1 >= p95Top && y2 <= p95Bottom)
	if !inside {
		n += len(d.Points) + len(d.Names) + 1
	}
	return n
}
