package stream

import (
	"slices"
	"testing"
)

func TestCaptureLogsLinesAsTheyEnd(t *testing.T) {
	var logged []string
	c := &Capture{log: func(line string) { logged = append(logged, line) }}
	steps := []struct {
		write string
		want  []string
	}{
		{"one\ntw", []string{"one"}},
		{"o\n\nthree\n", []string{"one", "two", "three"}},
		{"rest", []string{"one", "two", "three"}},
	}
	for _, s := range steps {
		if _, err := c.Write([]byte(s.write)); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(logged, s.want) {
			t.Errorf("after %q logged %q, want %q", s.write, logged, s.want)
		}
	}
	if got := c.String(); got != "one\ntwo\n\nthree\nrest" || !slices.Equal(logged, []string{"one", "two", "three", "rest"}) {
		t.Errorf("all is %q, logged %q", got, logged)
	}
}

func TestLoggingChoosesTheStreams(t *testing.T) {
	cases := []struct {
		name           string
		logging        *Logging
		stdout, stderr bool
	}{
		{"both without a choice", nil, true, true},
		{"both", choice(StdoutAndStderr), true, true},
		{"standard output only", choice(Stdout), true, false},
		{"standard error only", choice(Stderr), false, true},
		{"none", choice(None), false, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := logs(c.logging, Stdout); got != c.stdout {
				t.Errorf("standard output is logged: %t", got)
			}
			if got := logs(c.logging, Stderr); got != c.stderr {
				t.Errorf("standard error is logged: %t", got)
			}
		})
	}
}

func choice(l Logging) *Logging { return &l }
