package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"lab/loadtest/analysis"
	"lab/loadtest/engine"
	"lab/loadtest/plan"
)

// run searches until the analysis is done and writes the result. Whatever ends
// it (a target that is down, a host that can't be watched, a signal), what was
// measured is written with the reason; an error means that nothing was.
func run(ctx context.Context, p plan.Plan, out string, log io.Writer) error {
	finished, err := prepare(out, p.RunID, log)
	if err != nil || finished {
		return err
	}
	result := analysis.Result{
		Version: 1, RunID: p.RunID, Target: p.Target, Scenario: p.Scenario,
		Started: time.Now().UTC().Format(time.RFC3339),
	}
	e, err := engine.NewShare(p.Target, p.Scenario, engine.Share{Weights: p.Weights()})
	if err != nil {
		return err
	}
	defer e.Close()
	g, name, err := newGenerator(ctx, p, e, beside(out, ".k6"))
	if err != nil {
		return err
	}
	result.Engine, result.Generators = name, shares(p)
	if asked, err := check(p, e); err != nil {
		if asked.Completed == 0 {
			result.Steps = []analysis.Step{rounded(asked)} // the analysis says target-down
		}
		result.Aborted = fmt.Sprintf("before any load, %s did not answer: %s", p.Target, oneLine(err))
	} else {
		result.Aborted = search(ctx, p, g, &result, beside(out, ".partial.json"), log)
	}
	if result.Aborted != "" {
		fmt.Fprintln(log, "aborted:", result.Aborted)
	}
	return finish(out, result)
}

// search walks the steps into the result, and writes it after each. It returns
// why it ended early, or "".
func search(ctx context.Context, p plan.Plan, g generator, result *analysis.Result, partial string, log io.Writer) (aborted string) {
	w, err := newWatcher(ctx, p)
	if err != nil {
		return oneLine(err)
	}
	defer w.stop()
	g, crew, err := direct(ctx, p, g, w)
	if err != nil {
		return "no load was sent: " + oneLine(err)
	}
	defer crew.End()
	fmt.Fprintln(log, outlook(p.Scenario))
	t := timing{sc: p.Scenario}
	var begun mark
	for {
		probe, done := analysis.Next(p.Scenario, result.Steps)
		if done {
			if n := len(result.Steps); n > 0 {
				w.recount(ctx, result.Steps[n-1].Hosts, begun, recovery)
			}
			fmt.Fprintln(log, w.cost())
			fmt.Fprintln(log, summary(*result))
			return ""
		}
		if t.next(probe, result.LoadSeconds) {
			fmt.Fprintln(log, t.runs(*result))
		}
		begun = w.mark()
		step, start, err := g.Step(ctx, probe)
		step.Run = probe.Run
		if ctx.Err() != nil {
			return "the runner was told to stop"
		}
		if err != nil {
			return oneLine(err)
		}
		used := w.between(start.Add(seconds(probe.DiscardSeconds)), start.Add(seconds(probe.Seconds)), begun, crew.CPUs())
		step.Hosts, step.Services, step.Kubernetes = used.hosts, used.services, used.kubernetes
		step.Generator, step.Generators = busiest(used.generators)
		result.Steps = append(result.Steps, rounded(step))
		result.LoadSeconds += probe.Seconds
		fmt.Fprintf(log, "%s: %s\n", t.share(result.LoadSeconds), progress(step))
		if err := write(partial, *result); err != nil {
			return oneLine(err)
		}
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// oneLine is an error, also a joined one, as a reason within a sentence.
func oneLine(err error) string {
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return err.Error()
	}
	text := ""
	for i, e := range joined.Unwrap() {
		if i > 0 {
			text += "; "
		}
		text += e.Error()
	}
	return text
}
