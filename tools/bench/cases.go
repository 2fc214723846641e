package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"
)

// The cases of a round.
const (
	caseSlow   = "1k"      // 1,000 req/s
	caseFast   = "5k"      // 5,000 req/s
	caseClosed = "closed"  // as many as a few connections get answered
	caseFrozen = "frozen"  // 200 req/s, and the target stands still for a fifth of the time
	caseKnown  = "ceiling" // search of a target that knows its capacity
)

const (
	inFlight    = 500 // of an open-loop generator: a tenth of a second at 5,000/s
	connections = 50  // of a closed-loop one, and of every one in caseClosed
	frozenRPS   = 200
	frozenPart  = 0.2  // of the time
	frozenAfter = 0.3  // of the time: a generator that starts slowly has its time too
	overload    = 1.1  // × wrk's rate is offered to find builtin's maximum: more would only be dropped
	firstOver   = 60e3 // offered while no rate of wrk is known
	searchFloor = 400  // req/s: a part of what /hold serves
)

// paces are the rates of the cases that have one.
var paces = map[string]float64{caseSlow: 1000, caseFast: 5000, caseFrozen: frozenRPS}

// row is one measurement: a generator in a case of a round.
type row struct {
	Round     int    `json:"round"` // from 1
	Case      string `json:"case"`
	Generator string `json:"generator"`
	told
	use
	SeenRequests   int64   `json:"seenRequests"`     // by the target
	SeenRPS        float64 `json:"seenRps"`          // by the target
	NotSent        int64   `json:"notSent"`          // of the schedule's, by what the target saw; 0 without a schedule
	RateErrorRatio float64 `json:"rateErrorRatio"`   // of SeenRPS, without sign; 0 without a schedule
	ForeignRatio   float64 `json:"foreignRatio"`     // of the machine's CPU: used by others, or stolen
	Ceiling        ceiling `json:"ceiling,omitzero"` // caseKnown
	CapacityRPS    float64 `json:"capacityRps"`      // caseKnown: by the target itself
	FreezeSeconds  float64 `json:"freezeSeconds"`    // caseFrozen
}

// bench is one run over all cases.
type bench struct {
	self       string
	generators []generator
	rounds     int
	seconds    float64
	progress   io.Writer
	wrkRPS     float64 // of the last closed loop
}

// measure runs the rounds. The generators of a case follow each other at once, and
// each round begins with another of them, so that what changes on the machine
// meanwhile favours none.
func (b *bench) measure(ctx context.Context) ([]row, error) {
	var rows []row
	for round := 1; round <= b.rounds; round++ {
		for _, c := range []string{caseSlow, caseFast, caseClosed, caseFrozen} {
			for _, g := range b.order(c, round) {
				r, err := b.one(ctx, c, g)
				if err != nil {
					return rows, fmt.Errorf("round %d, %s, %s: %w", round, c, g.name, err)
				}
				r.Round = round
				rows = append(rows, r)
				b.tell(r)
			}
		}
		r, err := b.search(ctx)
		if err != nil {
			return rows, fmt.Errorf("round %d, %s: %w", round, caseKnown, err)
		}
		r.Round = round
		rows = append(rows, r)
		b.tell(r)
	}
	return rows, nil
}

// tell prints a line of progress.
func (b *bench) tell(r row) {
	fmt.Fprintf(b.progress, "round %d of %d · %s; others used %.0f %% of the CPUs\n", r.Round, b.rounds, r, 100*r.ForeignRatio)
}

// order is who measures in a case of a round, and when. wrk is first in the closed
// loop: what it reaches says what the open loop must offer to be over capacity.
func (b *bench) order(c string, round int) []generator {
	var first, rest []generator
	for _, g := range b.generators {
		switch {
		case g.name == wrk && c == caseClosed:
			first = append(first, g)
		case g.paced || c == caseFrozen:
			rest = append(rest, g)
		}
	}
	turn := (round - 1) % len(rest)
	return append(append(first, rest[turn:]...), rest[:turn]...)
}

// one measures a generator in a case against a target of its own.
func (b *bench) one(ctx context.Context, c string, g generator) (row, error) {
	l := load{rateRPS: paces[c], seconds: b.seconds, connections: connections}
	freeze := 0.0
	if c == caseFrozen {
		freeze = frozenPart * b.seconds
	}
	if g.open && c != caseClosed {
		l.connections = max(inFlight, int(2*frozenRPS*freeze))
	}
	if l.overRPS = firstOver; b.wrkRPS > 0 {
		l.overRPS = overload * b.wrkRPS
	}
	r, out, err := b.against(ctx, func(url string) []string { return g.command(url+"/", l) }, freeze)
	if err != nil {
		return r, err
	}
	r.Case, r.Generator = c, g.name
	if r.told, err = g.parse(out); err != nil {
		return r, err
	}
	if r.Answered == 0 {
		return r, errors.New("nothing was answered")
	}
	if c == caseClosed && g.name == wrk {
		b.wrkRPS = r.SeenRPS
	}
	if l.rateRPS > 0 && g.paced {
		r.NotSent = max(0, int64(l.rateRPS*l.seconds)-r.SeenRequests)
		r.RateErrorRatio = max(r.SeenRPS/l.rateRPS-1, 1-r.SeenRPS/l.rateRPS)
	}
	return r, nil
}

// search measures the built-in engine's ceiling of a target of known capacity.
func (b *bench) search(ctx context.Context) (row, error) {
	r, out, err := b.against(ctx, func(url string) []string {
		return []string{b.self, searchKind, url, number(searchFloor), number(b.seconds), number(1000)}
	}, 0)
	if err != nil {
		return r, err
	}
	r.Case, r.Generator = caseKnown, builtin
	r.Ceiling, err = parseCeiling(out)
	return r, err
}

// against runs a command against a fresh target, frozen meanwhile for so many
// seconds, and says what both sides saw.
func (b *bench) against(ctx context.Context, command func(url string) []string, freeze float64) (r row, out []byte, err error) {
	target, err := startTarget(b.self)
	if err != nil {
		return r, nil, err
	}
	defer func() { err = errors.Join(err, target.stop()) }()
	before, err := target.seen()
	if err != nil {
		return r, nil, err
	}
	from, err := machineTicks()
	if err != nil {
		return r, nil, err
	}
	start := time.Now()
	freezing, stopFreezing := context.WithCancel(ctx)
	frozen := make(chan error, 1)
	go func() {
		if freeze == 0 {
			frozen <- nil
			return
		}
		frozen <- target.freeze(freezing, seconds(frozenAfter*b.seconds), seconds(freeze))
	}()
	out, r.use, err = run(ctx, command(target.url))
	stopFreezing() // a generator that ended early leaves no frozen target
	if err := errors.Join(err, <-frozen); err != nil {
		return r, nil, err
	}
	elapsed := time.Since(start)
	to, err1 := machineTicks()
	after, err2 := target.seen()
	if err := errors.Join(err1, err2); err != nil {
		return r, nil, err
	}
	own := r.CPUSeconds + after.CPUSeconds - before.CPUSeconds
	r.ForeignRatio = foreignRatio(from, to, elapsed, runtime.NumCPU(), own)
	r.SeenRequests, r.SeenRPS, r.CapacityRPS, r.FreezeSeconds = after.Requests, after.rateRPS(), after.CapacityRPS, freeze
	return r, out, nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// String is a row's line of progress.
func (r row) String() string {
	switch r.Case {
	case caseKnown:
		return fmt.Sprintf("%s: %s %.1f of %.1f req/s", r.Case, r.Ceiling.Status, r.Ceiling.CeilingRPS, r.CapacityRPS)
	case caseClosed:
		return fmt.Sprintf("%s · %s: %s req/s, %.1f ms of CPU for 1,000", r.Case, r.Generator, thousands(r.SeenRPS), r.cpuMsPer1000())
	case caseFrozen:
		return fmt.Sprintf("%s · %s: p95 %s ms", r.Case, r.Generator, figure(r.P95Ms))
	}
	return fmt.Sprintf("%s · %s: %.1f ms of CPU for 1,000, %.1f MiB, rate off by %.2f %%, p95 %s ms",
		r.Case, r.Generator, r.cpuMsPer1000(), r.RSSMiB, 100*r.RateErrorRatio, figure(r.P95Ms))
}

// cpuMsPer1000 is the generator's CPU time for 1,000 requests that the target saw.
func (r row) cpuMsPer1000() float64 {
	return r.CPUSeconds * 1000 / (float64(r.SeenRequests) / 1000)
}
