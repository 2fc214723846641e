// Command bench measures the built-in load generator beside others in one run:
// what a request costs, how well a rate is kept, how fast it goes, whether a stall
// of the target is told, and how near a found ceiling is to a known capacity. It
// says which of the built-in engine's bars are kept.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
)

const usage = `bench: the built-in load generator beside wrk, hey, vegeta and k6

Usage: make bench [BENCH='--rounds N --seconds S --json FILE --report-only'] [K6=FILE]

Every generator is a process of its own, and so is the target, a small Go server on
127.0.0.1 that replies 1 kB; all share the machine's CPUs and are not pinned. Needs wrk
and hey on PATH (scripts/setup.sh bench). k6 is measured when K6 names its binary or
PATH has it. A quick look: --rounds 1 --seconds 3. Exits with 1 when a bar is missed, with
2 when something could not be measured.

`

// errMissed ends the program with 1: the measurement is sound, a bar is not kept.
var errMissed = errors.New("a bar is missed")

type options struct {
	rounds     int
	seconds    float64
	json       string // file for the report, "" for none
	reportOnly bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if isChild(os.Args[1:]) {
		if err := child(ctx, os.Args[1:]); err != nil {
			fmt.Fprintf(os.Stderr, "bench %s: %v\n", os.Args[1], err)
			os.Exit(2)
		}
		return
	}
	o, err := parseOptions(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = benchmark(ctx, o, os.Getenv("K6"), os.Stdout, os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		if errors.Is(err, errMissed) {
			os.Exit(1)
		}
		os.Exit(2)
	}
}

// isChild says whether the arguments are those of a process that bench starts.
func isChild(args []string) bool {
	return len(args) > 0 && (args[0] == targetKind || args[0] == builtin || args[0] == vegeta || args[0] == searchKind)
}

func parseOptions(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	flags.IntVar(&o.rounds, "rounds", 3, "measure everything so many times, and take medians")
	flags.Float64Var(&o.seconds, "seconds", 10, "length of one measurement")
	flags.StringVar(&o.json, "json", "", "also write every measurement to this `file`")
	flags.BoolVar(&o.reportOnly, "report-only", false, "end well although a bar is missed")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	var errs []error
	if flags.NArg() > 0 {
		errs = append(errs, fmt.Errorf("%q is no option; see --help", flags.Arg(0)))
	}
	if o.rounds < 1 {
		errs = append(errs, fmt.Errorf("--rounds: %d is below 1; three give a median", o.rounds))
	}
	if o.seconds < 1 || o.seconds > 60 {
		errs = append(errs, fmt.Errorf("--seconds: %g is not between 1 and 60; 10 is what the bars are meant for", o.seconds))
	}
	return o, errors.Join(errs...)
}

// benchmark measures and reports. k6Binary is "" to look for k6 on PATH.
func benchmark(ctx context.Context, o options, k6Binary string, stdout, stderr io.Writer) error {
	k6Binary, err := available(k6Binary)
	if err != nil {
		return err
	}
	if k6Binary == "" {
		fmt.Fprintln(stderr, "no k6 on PATH, and K6 names none: it is left out")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	generators, err := newGenerators(self, dir, k6Binary)
	if err != nil {
		return err
	}
	b := &bench{self: self, generators: generators, rounds: o.rounds, seconds: o.seconds, progress: stderr}
	rows, err := b.measure(ctx)
	if err != nil {
		return err
	}
	r := newReport(runtime.NumCPU(), processor(), o.rounds, o.seconds, rows)
	r.markdown(stdout)
	if o.json != "" {
		if err := writeJSON(o.json, r); err != nil {
			return err
		}
	}
	if r.missed() && !o.reportOnly {
		return errMissed
	}
	return nil
}

// available is the k6 to measure, "" for none; all at once it says what lacks.
func available(k6Binary string) (string, error) {
	var errs []error
	for _, name := range []string{wrk, hey} {
		if _, err := exec.LookPath(name); err != nil {
			errs = append(errs, fmt.Errorf("%w; run scripts/setup.sh bench", err))
		}
	}
	if k6Binary == "" {
		k6Binary, _ = exec.LookPath(k6) // it need not be there
	} else if _, err := exec.LookPath(k6Binary); err != nil {
		errs = append(errs, fmt.Errorf("K6=%s: %w", k6Binary, err))
	}
	return k6Binary, errors.Join(errs...)
}

func writeJSON(file string, r report) error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(raw, '\n'), 0o644)
}

// processor is the model's name, "unknown" where /proc/cpuinfo has none, as on ARM.
func processor() string {
	info, _ := os.ReadFile("/proc/cpuinfo") // without it the name is unknown
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}
