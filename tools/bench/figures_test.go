package main

import (
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// onPath is a directory with links to these commands alone.
func onPath(t *testing.T, commands ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range commands {
		file, err := exec.LookPath(name)
		if err != nil {
			t.Fatalf("%v (scripts/setup.sh test installs it)", err)
		}
		if err := os.Symlink(file, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// kept are three rounds in which every bar is just kept.
func kept() []row {
	var rows []row
	for range 3 {
		add := func(c, generator string, r row) {
			r.Case, r.Generator, r.SeenRequests = c, generator, 1000
			rows = append(rows, r)
		}
		good := row{told: told{LagP50Ms: 0.2}, use: use{CPUSeconds: 0.1, RSSMiB: 38}, RateErrorRatio: 0.005}
		add(caseSlow, builtin, good)
		add(caseFast, builtin, good)
		add(caseFast, vegeta, row{use: use{CPUSeconds: 0.1}})
		add(caseFast, k6, row{use: use{CPUSeconds: 0.2}})
		add(caseClosed, builtin, row{SeenRPS: 75})
		add(caseClosed, wrk, row{SeenRPS: 100})
		add(caseFrozen, builtin, row{told: told{P95Ms: 1574}, FreezeSeconds: 2})
		add(caseKnown, builtin, row{Ceiling: ceiling{Status: "found", CeilingRPS: 101.9}, CapacityRPS: 100})
	}
	return rows
}

func TestBars(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*row)
		of     string // the bar that is missed, "" for none
	}{
		{"all are kept", func(*row) {}, ""},
		{"a rate that is off by more than 0.5 %", func(r *row) { r.RateErrorRatio = 0.0051 }, "rate error"},
		{"a request that was not sent", func(r *row) { r.NotSent = 1 }, "dropped, failed or not sent"},
		{"a request that was dropped", func(r *row) { r.Dropped = 1 }, "dropped, failed or not sent"},
		{"a request that failed", func(r *row) { r.Failed = 1 }, "dropped, failed or not sent"},
		{"requests that are sent late", func(r *row) { r.LagP50Ms = 0.21 }, "scheduling lag"},
		{"more than 40 MB, though less than 40 MiB", func(r *row) { r.RSSMiB = 39 }, "largest RSS"},
		{"more CPU than vegeta", func(r *row) { r.CPUSeconds *= 1.01 }, "CPU at 5,000/s"},
		{"a stall that is understated", func(r *row) { r.P95Ms = 1424 }, "p95 of a frozen target"},
		{"a stall that is overstated", func(r *row) { r.P95Ms = 1576 }, "p95 of a frozen target"},
		{"slower than three quarters of wrk", func(r *row) { r.SeenRPS = 74.9 }, "closed-loop maximum"},
		{"a ceiling that is too low", func(r *row) { r.Ceiling.CeilingRPS = 97.9 }, "ceiling"},
		{"no ceiling", func(r *row) { r.Ceiling.Status = "environment-invalid" }, "ceiling"},
	} {
		t.Run(row.name, func(t *testing.T) {
			rows := kept()
			for i := range rows {
				if rows[i].Generator == builtin {
					row.change(&rows[i])
				}
			}
			some := false
			for _, b := range bars(rows) {
				if of := row.of != "" && strings.HasPrefix(b.What, row.of); b.Verdict != passed && !of {
					t.Errorf("%+v: want it kept", b)
				} else if b.Verdict == missed {
					some = true
				}
			}
			if r := newReport(2, "x", 3, 10, rows); some != (row.of != "") || some != r.missed() {
				t.Errorf("a bar is missed: %v, by the report: %v", some, r.missed())
			}
		})
	}
}

func TestABarIsNotKeptByWhatWasNotMeasured(t *testing.T) {
	rows := slices.DeleteFunc(kept(), func(r row) bool { return r.Generator == k6 })
	for _, b := range bars(rows) {
		if want := strings.Contains(b.Rule, "k6"); want != (b.Verdict == notMeasured) {
			t.Errorf("%+v", b)
		}
	}
}

func TestRatiosArePairedByRound(t *testing.T) {
	rows := []row{
		{Case: caseClosed, Generator: builtin, SeenRPS: 80}, {Case: caseClosed, Generator: wrk, SeenRPS: 100},
		{Case: caseClosed, Generator: builtin, SeenRPS: 40}, {Case: caseClosed, Generator: wrk, SeenRPS: 50}, // others had the CPUs
		{Case: caseClosed, Generator: builtin, SeenRPS: 81}, {Case: caseClosed, Generator: wrk, SeenRPS: 90},
	}
	if got := pairedRatio(rows, caseClosed, wrk, func(r row) float64 { return r.SeenRPS }); got != 0.8 {
		t.Errorf("%g, want 0.8", got)
	}
}

func TestFrozenTheoryIsThatOfASimulatedSchedule(t *testing.T) {
	const length, freeze = 10.0, 2.0
	var waits []float64
	for at := 0.0; at < length; at += 0.001 {
		waits = append(waits, max(0, min(freeze, 3+freeze-at))*1000)
		if at < 3 {
			waits[len(waits)-1] = 0
		}
	}
	slices.Sort(waits)
	if got, want := frozenTheoryMs(freeze), waits[len(waits)*95/100]; math.Abs(got-want) > 2 || got != 1500 {
		t.Errorf("theory %g ms, simulated %g", got, want)
	}
}

func TestOptions(t *testing.T) {
	for _, row := range []struct{ args, problem string }{
		{"", ""},
		{"--rounds 1 --seconds 3 --json x --report-only", ""},
		{"--rounds 0", "--rounds: 0 is below 1"},
		{"--seconds 0.5", "--seconds: 0.5 is not between 1 and 60"},
		{"--rounds 0 --seconds 61", "--rounds: 0 is below 1; three give a median\n--seconds: 61"},
		{"fast", `"fast" is no option`},
	} {
		_, err := parseOptions(strings.Fields(row.args))
		if row.problem == "" && err != nil || row.problem != "" && (err == nil || !strings.Contains(err.Error(), row.problem)) {
			t.Errorf("%q: error %v, want %q", row.args, err, row.problem)
		}
	}
	if _, err := parseOptions([]string{"--help"}); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("--help: %v", err)
	}
}

func TestAllThatLacksIsNamedAtOnce(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	err := benchmark(t.Context(), options{rounds: 1, seconds: 1}, "/nowhere/k6", io.Discard, io.Discard)
	for _, want := range []string{`"wrk"`, `"hey"`, "scripts/setup.sh bench", "K6=/nowhere/k6"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v lacks %q", err, want)
		}
	}
}

func TestForeignWorkIsWhatNeitherSideUsed(t *testing.T) {
	from, err1 := parseTicks("cpu  100 0 100 700 50 10 10 30 5 5\ncpu0 1 1\n")
	to, err2 := parseTicks("cpu  150 0 150 740 60 10 10 80 9 9\n")
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	// 200 ticks on two CPUs are a second of them; 150 were busy, so 1.5 CPU seconds.
	if got := foreignRatio(from, to, time.Second, 2, 1); math.Abs(got-0.25) > 1e-9 {
		t.Errorf("foreign %g, want 0.25", got)
	}
	if _, err := parseTicks("cpu 1 2\n"); err == nil {
		t.Error("a short line must be an error")
	}
}

func TestPeakRSSIsReadFromTheStatus(t *testing.T) {
	if got := parsePeakRSS([]byte("Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t 1024 kB\n")); got != 2 {
		t.Errorf("%g MiB, want 2", got)
	}
}

func TestLagCountsFromTheEarliest(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	if got := lagP50([]time.Time{at(5), at(1), at(3)}); got != 2 {
		t.Errorf("%g ms, want 2", got)
	}
	if got := lagP50(nil); got != unknown {
		t.Errorf("%g, want unknown", got)
	}
}

func TestFiguresArePrintedToThreeDigits(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.01234: "0.0123", 12.34: "12.3", 123.4: "123", 1234567: "1,234,567", -1234: "-1,234", unknown: "–", math.NaN(): "–",
	} {
		if got := figure(v); got != want {
			t.Errorf("%g is printed %q, want %q", v, got, want)
		}
	}
}
