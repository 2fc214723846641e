package main

import (
	"context"
	"fmt"
	"time"

	"lab/loadtest/analysis"
	"lab/loadtest/engine"
	"lab/loadtest/orders"
	"lab/loadtest/plan"
)

// several are the plan's generators as one.
type several struct{ *orders.Crew }

func (s several) Step(ctx context.Context, probe analysis.Probe) (analysis.Step, time.Time, error) {
	tally, began, err := s.Count(ctx, probe)
	if err != nil {
		return analysis.Step{}, began, err
	}
	return tally.Step(probe), began, nil
}

// direct has g lead the plan's further generators, and prepares them: one that
// can't be had is an error before any load. With none it gives g back, and an empty
// crew. The samples tell how far the others' clocks are off.
func direct(ctx context.Context, p plan.Plan, g generator, w *watcher) (generator, *orders.Crew, error) {
	weights := p.Weights()
	own, ok := g.(builtin)
	if weights != nil && !ok {
		return nil, nil, fmt.Errorf("%T generates its load by itself: give the role loadgen to one host", g)
	}
	var members []orders.Member
	for i, f := range p.Further {
		members = append(members, orders.Member{
			Host: f.Host, Address: f.Orders, Share: engine.Share{Index: i + 1, Weights: weights},
			Clock: func() time.Duration { return w.clock(f.Host) },
		})
	}
	crew := orders.NewCrew(own.Engine, members, p.Secret, p.RunID)
	if len(members) == 0 {
		return g, crew, nil
	}
	if err := crew.Begin(ctx, p.Scenario); err != nil {
		crew.End()
		return nil, nil, err
	}
	return several{crew}, crew, nil
}

// shares are the plan's generators for the result; none for a single one.
func shares(p plan.Plan) []analysis.Share {
	weights := p.Weights()
	total := 0
	for _, w := range weights {
		total += w
	}
	var all []analysis.Share
	for i, w := range weights {
		host := p.Generator
		if i > 0 {
			host = p.Further[i-1].Host
		}
		all = append(all, analysis.Share{Host: host, Ratio: round(float64(w) / float64(total))})
	}
	return all
}

// busiest is the generator with the least CPU left, and all of them when there are
// several. A plan without one knows nothing of it.
func busiest(generators []analysis.HostUse) (analysis.HostUse, []analysis.HostUse) {
	if len(generators) == 0 {
		return analysis.HostUse{PSICPURatio: -1, PSIIORatio: -1, DiskRatio: -1}, nil
	}
	most := generators[0]
	for _, g := range generators {
		if g.CPURatio > most.CPURatio {
			most = g
		}
	}
	if len(generators) == 1 {
		return most, nil
	}
	return most, generators
}
