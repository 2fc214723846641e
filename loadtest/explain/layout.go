package explain

import (
	"strings"
	"unicode"
)

// Options are how text is laid out.
type Options struct {
	Width int  // columns; 0 means 80, fewer than 40 mean 40
	ASCII bool // no characters beyond ASCII
}

const (
	defaultWidth = 80
	narrowest    = 40
	leastText    = 20 // columns that a hanging text keeps, however long its prefix is
)

func (o Options) width() int {
	if o.Width == 0 {
		return defaultWidth
	}
	return max(o.Width, narrowest)
}

var spelledOut = strings.NewReplacer("±", "+-", "≥", ">=", "≤", "<=", "●", "o", "○", "x", "·", ".", "─", "-", "│", "|", "┼", "+",
	"×", "x", "λ", "offered", "−", "-", "→", "->", "÷", "/", "√", "sqrt ", "…", "...", "“", `"`, "”", `"`, "’", "'", "–", "-")

// Plain spells out what is beyond ASCII, if asked to. Names of the user's own may
// hold anything: what has no spelling is a "?".
func (o Options) Plain(text string) string {
	if !o.ASCII {
		return text
	}
	return strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII {
			return '?'
		}
		return r
	}, spelledOut.Replace(text))
}

// Paragraph is a text in lines that are not too long.
func (o Options) Paragraph(text string) string { return o.hanging("", 2, text) }

// hanging is a prefix and a text in lines that are not too long, those after the
// first below column hang. A word that is longer than a line is cut.
func (o Options) hanging(prefix string, hang int, text string) string {
	line := []rune(o.Plain(prefix + text))
	indent := strings.Repeat(" ", min(hang, o.width()-leastText))
	start := len([]rune(prefix)) // no break within the prefix, whose columns hold blanks
	var b strings.Builder
	for len(line) > o.width() {
		at := o.width()
		for i := at; i > start; i-- {
			if line[i] == ' ' {
				at = i
				break
			}
		}
		b.WriteString(strings.TrimRight(string(line[:at]), " ") + "\n")
		line = []rune(indent + strings.TrimLeft(string(line[at:]), " "))
		start = len(indent)
	}
	return b.String() + strings.TrimRight(string(line), " ") + "\n"
}
