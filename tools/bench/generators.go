package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
)

// unknown is a figure that a generator does not tell.
const unknown = -1

// load is what a generator is asked for.
type load struct {
	rateRPS     float64 // 0: as fast as the connections get answers
	overRPS     float64 // with rateRPS 0, what an open-loop generator offers: more than anything here serves
	seconds     float64
	connections int // in flight at most
}

// told is what a generator says of itself.
type told struct {
	Answered int64   `json:"answered"`
	Failed   int64   `json:"failed"`
	Dropped  int64   `json:"dropped"` // arrivals not started; 0 too where a generator has no such count
	P50Ms    float64 `json:"p50Ms"`
	P95Ms    float64 `json:"p95Ms"`
	P99Ms    float64 `json:"p99Ms"`
	LagP50Ms float64 `json:"lagP50Ms"` // real send − intended start; −1 when it doesn't tell
}

// The names of the generators.
const (
	builtin = "builtin"
	vegeta  = "vegeta"
	hey     = "hey"
	wrk     = "wrk"
	k6      = "k6"
)

// generator is one of those compared. Its command runs as a process of its own.
type generator struct {
	name    string
	paced   bool // offers a rate; else its rate is what gets answered
	open    bool // starts requests whether or not earlier ones were answered
	command func(url string, l load) []string
	parse   func(stdout []byte) (told, error)
}

var (
	//go:embed files/wrk.lua
	wrkScript []byte
	//go:embed files/bench.js
	k6Script []byte
)

// newGenerators are those that are compared, their scripts written to dir. self is
// this program, which is the library generators too; k6Binary is "" without k6.
func newGenerators(self, dir, k6Binary string) ([]generator, error) {
	lua, js := filepath.Join(dir, "wrk.lua"), filepath.Join(dir, "bench.js")
	if err := errors.Join(os.WriteFile(lua, wrkScript, 0o600), os.WriteFile(js, k6Script, 0o600)); err != nil {
		return nil, err
	}
	library := func(name string) func(string, load) []string {
		return func(url string, l load) []string {
			rate := l.rateRPS
			if rate == 0 && name == builtin {
				rate = l.overRPS
			}
			return []string{self, name, url, number(rate), number(l.seconds), strconv.Itoa(l.connections)}
		}
	}
	all := []generator{
		{builtin, true, true, library(builtin), parseTold},
		{vegeta, true, true, library(vegeta), parseTold},
		{hey, true, false, heyCommand, parseHey},
		{wrk, false, false, func(url string, l load) []string {
			threads := min(2, l.connections)
			return []string{wrk, "-t", strconv.Itoa(threads), "-c", strconv.Itoa(l.connections), "-d", number(math.Ceil(l.seconds)) + "s", "-s", lua, url}
		}, parseWrk},
	}
	if k6Binary != "" {
		all = append(all, generator{k6, true, true, func(url string, l load) []string {
			return []string{k6Binary, "run", "--quiet", "--no-usage-report", "-e", "TARGET=" + url, "-e", "RATE=" + number(l.rateRPS),
				"-e", "SECONDS=" + number(l.seconds), "-e", "CONNECTIONS=" + strconv.Itoa(l.connections), js}
		}, parseK6})
	}
	return all, nil
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// heyCommand divides the rate among hey's workers: it limits each of them, not all.
func heyCommand(url string, l load) []string {
	args := []string{hey, "-z", number(l.seconds) + "s", "-c", strconv.Itoa(l.connections)}
	if l.rateRPS > 0 {
		args = append(args, "-q", number(l.rateRPS/float64(l.connections)))
	}
	return append(args, url)
}

func parseTold(stdout []byte) (told, error) {
	var t told
	err := json.Unmarshal(stdout, &t)
	return t, err
}

// parseK6 reads what bench.js prints.
func parseK6(stdout []byte) (told, error) {
	t := told{LagP50Ms: unknown}
	err := json.Unmarshal(stdout, &t)
	t.LagP50Ms = unknown
	return t, err
}

// parseWrk reads the line of wrk.lua.
func parseWrk(stdout []byte) (told, error) {
	_, line, ok := bytes.Cut(stdout, []byte("wrk.lua "))
	if !ok {
		return told{}, fmt.Errorf("no line of wrk.lua in %q", stdout)
	}
	line, _, _ = bytes.Cut(line, []byte("\n"))
	t, err := parseTold(line)
	t.LagP50Ms = unknown
	return t, err
}

var (
	heyPercentile = regexp.MustCompile(`(?m)^\s+(50|95|99)% in ([0-9.]+) secs$`)
	heyCode       = regexp.MustCompile(`(?m)^\s+\[(\d{3})\]\s+(\d+) responses$`)
	heyError      = regexp.MustCompile(`(?m)^\s+\[(\d+)\]\s+(\D.*)$`)
)

// parseHey reads hey's summary: percentiles in 0.1 ms, answers by status code, and
// errors by text, each with a count. Without an answer it prints no percentile.
func parseHey(stdout []byte) (told, error) {
	t := told{LagP50Ms: unknown}
	summary, errorLines, _ := bytes.Cut(stdout, []byte("Error distribution:"))
	for _, m := range heyCode.FindAllSubmatch(summary, -1) {
		n, err := strconv.ParseInt(string(m[2]), 10, 64)
		if err != nil {
			return t, err
		}
		if m[1][0] < '4' {
			t.Answered += n
		} else {
			t.Failed += n
		}
	}
	for _, m := range heyError.FindAllSubmatch(errorLines, -1) {
		n, err := strconv.ParseInt(string(m[1]), 10, 64)
		if err != nil {
			return t, err
		}
		t.Failed += n
	}
	at := map[string]*float64{"50": &t.P50Ms, "95": &t.P95Ms, "99": &t.P99Ms}
	for _, m := range heyPercentile.FindAllSubmatch(summary, -1) {
		seconds, err := strconv.ParseFloat(string(m[2]), 64)
		if err != nil {
			return t, err
		}
		*at[string(m[1])] = seconds * 1000
	}
	if t.Answered+t.Failed == 0 {
		return t, fmt.Errorf("no answer and no error in hey's summary %q", stdout)
	}
	return t, nil
}
