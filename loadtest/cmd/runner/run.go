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
	e, err := engine.New(p.Target, p.Scenario)
	if err != nil {
		return err
	}
	defer e.Close()
	g, name, err := newGenerator(ctx, p, e, beside(out, ".k6"))
	if err != nil {
		return err
	}
	result.Engine = name
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
	for {
		probe, done := analysis.Next(p.Scenario, result.Steps)
		if done {
			fmt.Fprintln(log, w.cost())
			fmt.Fprintln(log, summary(*result))
			return ""
		}
		begun := w.mark()
		step, start, err := g.Step(ctx, probe)
		step.Run = probe.Run
		if ctx.Err() != nil {
			return "the runner was told to stop"
		}
		if err != nil {
			return oneLine(err)
		}
		used := w.between(start.Add(seconds(probe.DiscardSeconds)), start.Add(seconds(probe.Seconds)), begun)
		step.Hosts, step.Services, step.Generator = used.hosts, used.services, used.generator
		result.Steps = append(result.Steps, rounded(step))
		result.LoadSeconds += probe.Seconds
		fmt.Fprintln(log, progress(step))
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

// summary is the run's last line: its answer, and what it took.
func summary(r analysis.Result) string {
	v := analysis.Analyze(r)
	text := fmt.Sprintf("%s: ceiling %s, %s; %.0f s of load in %d steps", v.Status, v.Ceiling, v.Wall, r.LoadSeconds, len(r.Steps))
	if v.CeilingRPS > 0 && r.Scenario.Kind == analysis.KindSearch {
		fixed := analysis.FixedRampSeconds(r.Scenario.FloorRPS, v.CeilingRPS)
		text += fmt.Sprintf(" (a ramp of 10 req/s more each minute: %.0f s)", fixed)
	}
	return text
}

// progress is the line that a user reads while the load runs.
func progress(s analysis.Step) string {
	hottest, hosts := analysis.HostUse{}, 0
	for _, h := range s.Hosts {
		if h.Samples > 0 && (hosts == 0 || h.CPURatio > hottest.CPURatio) {
			hottest = h
		}
		hosts += min(h.Samples, 1)
	}
	text := fmt.Sprintf("step %s %g req/s: completed %.1f, ", s.Phase, s.OfferedRPS, s.CompletedRPS())
	if s.Run > 0 {
		text = fmt.Sprintf("run %d ", s.Run+1) + text
	}
	if s.Completed > 0 {
		text += fmt.Sprintf("p95 %.1f ms, ", s.P95Ms)
	}
	if hosts > 0 {
		text += fmt.Sprintf("hottest %s CPU %.0f%%", hottest.Host, 100*hottest.CPURatio)
	} else {
		text += "no host sampled"
	}
	if ok, reason := analysis.Sustained(s); !ok {
		text += " (not sustained: " + reason + ")"
	}
	return text
}
