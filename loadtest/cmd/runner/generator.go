package main

import (
	"context"
	"time"

	"lab/loadtest/analysis"
	"lab/loadtest/engine"
	"lab/loadtest/k6"
	"lab/loadtest/plan"
)

// generator offers one step and measures it. began is when the step's first
// arrival was due, which the hosts' samples are cut by.
type generator interface {
	Step(ctx context.Context, probe analysis.Probe) (step analysis.Step, began time.Time, err error)
}

// builtin is the engine of this module as a generator: it begins at once.
type builtin struct{ *engine.Engine }

func (b builtin) Step(ctx context.Context, probe analysis.Probe) (analysis.Step, time.Time, error) {
	began := time.Now()
	return b.Engine.Step(ctx, probe), began, nil
}

// newGenerator is the scenario's engine, with the name that the result records.
// dir is where k6 keeps its files.
func newGenerator(ctx context.Context, p plan.Plan, e *engine.Engine, dir string) (generator, string, error) {
	if p.Scenario.Engine != analysis.EngineK6 {
		return builtin{e}, analysis.EngineBuiltin, nil
	}
	g, err := k6.New(ctx, p.K6.Binary, p.K6.Version, p.K6.Script, dir, p.Target, p.Scenario)
	if err != nil {
		return nil, "", err
	}
	return g, g.Name(), nil
}

// check asks the target once for each endpoint before any load. A user's own
// script asks what it likes: its first step tells.
func check(p plan.Plan, e *engine.Engine) (analysis.Step, error) {
	if p.K6 != nil && p.K6.Script != "" {
		return analysis.Step{}, nil
	}
	return e.Check()
}
