package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"lab/loadtest/analysis"
	"lab/loadtest/engine"
	"lab/loadtest/plan"
)

// run searches until the analysis is done and writes the result. Whatever ends
// it, what was measured is written.
func run(ctx context.Context, p plan.Plan, out string, log io.Writer) error {
	result := analysis.Result{
		Version: 1, RunID: p.RunID, Engine: "builtin", Target: p.Target, Scenario: p.Scenario,
		Started: time.Now().UTC().Format(time.RFC3339),
	}
	e, err := engine.New(p.Target, p.Scenario)
	if err != nil {
		return err
	}
	if err := e.Check(); err != nil {
		fmt.Fprintf(log, "the target %s does not answer: %v\n", p.Target, err)
		return write(out, result) // no step: the analysis says target-down
	}
	w, err := newWatcher(ctx, p)
	if err != nil {
		return err
	}
	defer w.stop()
	for {
		probe, done := analysis.Next(p.Scenario, result.Steps)
		if done {
			break
		}
		start := time.Now()
		step := e.Step(ctx, probe)
		if ctx.Err() != nil {
			result.Aborted = "the runner was told to stop"
			break
		}
		from := start.Add(seconds(probe.DiscardSeconds))
		step.Hosts, step.Generator = w.between(from, start.Add(seconds(probe.Seconds)))
		result.Steps = append(result.Steps, step)
		result.LoadSeconds += probe.Seconds
		fmt.Fprintln(log, progress(step))
		if err := write(out+".partial", result); err != nil {
			return err
		}
	}
	if err := write(out, result); err != nil {
		return err
	}
	_ = os.Remove(out + ".partial") // the result holds all of it
	return nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// progress is the line that a user reads while the load runs.
func progress(s analysis.Step) string {
	hottest := analysis.HostUse{Host: "no host", CPURatio: 0}
	for _, h := range s.Hosts {
		if h.CPURatio > hottest.CPURatio {
			hottest = h
		}
	}
	sign := "ok"
	if ok, reason := analysis.Sustained(s); !ok {
		sign = reason
	}
	return fmt.Sprintf("%-7s offered %6.1f/s  completed %6.1f/s  p95 %7.1f ms  hottest %s CPU %.0f%%  %s",
		s.Phase, s.OfferedRPS, s.CompletedRPS(), s.P95Ms, hottest.Host, 100*hottest.CPURatio, sign)
}

// write replaces the file at once: a reader sees the old or the new one.
func write(path string, result analysis.Result) error {
	raw, err := json.Marshal(result)
	if err != nil {
		return err
	}
	tmp := filepath.Join(filepath.Dir(path), ".new-"+filepath.Base(path))
	if err := os.WriteFile(tmp, raw, 0o644); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return os.Rename(tmp, path)
}
