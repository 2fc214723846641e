package explain

import (
	"strings"
	"testing"
	"unicode/utf8"

	"lab/loadtest/analysis"
)

func TestHanging(t *testing.T) {
	for _, row := range []struct {
		name, prefix string
		hang         int
		text, want   string
	}{
		{"a short line stays", "  ", 4, "app needs 2 ms", "  app needs 2 ms\n"},
		{"a long one is broken at a blank, and hangs", "run   ", 6, "one two three four five six seven eight nine ten", "run   one two three four five six seven\n      eight nine ten\n"},
		{"no break within the prefix", "a b c d e f g h i j k l m n ", 4, "word wordwordwordword", "a b c d e f g h i j k l m n word\n    wordwordwordword\n"},
		{"a word longer than a line is cut", "", 2, strings.Repeat("x", 90), strings.Repeat("x", 40) + "\n  " + strings.Repeat("x", 38) + "\n  " + strings.Repeat("x", 12) + "\n"},
		{"a full line is not broken", "", 0, strings.Repeat("x", 40), strings.Repeat("x", 40) + "\n"},
		{"a prefix wider than the line", strings.Repeat("p ", 22), 44, "word", strings.TrimRight(strings.Repeat("p ", 20), " ") + "\n" + strings.Repeat(" ", 20) + "p p word\n"},
		{"columns, not bytes", "", 0, strings.Repeat("±", 40), strings.Repeat("±", 40) + "\n"},
	} {
		if got := (Options{Width: 40}).hanging(row.prefix, row.hang, row.text); got != row.want {
			t.Errorf("%s:\n%q, want\n%q", row.name, got, row.want)
		}
	}
}

// Whatever a user's hosts are called, and whatever was measured.
func TestNoLineIsTooLongAndASCIIIsASCII(t *testing.T) {
	run := load(t)
	for i := range run.Steps {
		for h := range run.Steps[i].Hosts {
			if run.Steps[i].Hosts[h].Host == "database" {
				run.Steps[i].Hosts[h].Host = "datenbank-im-keller-zürich-rack-4"
			}
		}
	}
	aborted := load(t)
	aborted.Aborted = strings.Repeat("the runner was told to stop ", 9)
	for name, r := range map[string]analysis.Result{"long names": run, "aborted": aborted, "empty": {RunID: "empty"}} {
		for _, width := range []int{0, 1, 40, 60, 80, 120} {
			o := Options{Width: width, ASCII: width != 120}
			text := Text("Schöner Name", r, o)
			for line := range strings.Lines(text) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > o.width() {
					t.Errorf("%s: %d columns in %d: %s", name, n, o.width(), line)
				}
			}
			if at := strings.IndexFunc(text, func(r rune) bool { return r > 126 }); o.ASCII && at >= 0 {
				t.Errorf("%s: not ASCII: %q", name, text[at:at+8])
			}
		}
	}
	if got := (Options{ASCII: true}).Plain("×1.20 ±3 % → Zürich 日"); got != "x1.20 +-3 % -> Z?rich ?" {
		t.Errorf("%q", got)
	}
	if got := (Options{}).Plain("×"); got != "×" {
		t.Errorf("asked for no ASCII: %q", got)
	}
}
