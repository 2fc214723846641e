package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	vegetalib "github.com/tsenart/vegeta/v12/lib"

	"lab/loadtest/analysis"
	"lab/loadtest/engine"
)

// searchKind is the child that looks for the ceiling of /hold.
const searchKind = "search"

// child runs what this program does as a process of its own: the target, or a
// generator that is a library.
func child(ctx context.Context, args []string) error {
	if len(args) == 1 && args[0] == targetKind {
		return runTarget(os.Stdin, os.Stdout)
	}
	if len(args) != 5 {
		return fmt.Errorf("%v: want KIND URL RATE SECONDS CONNECTIONS", args)
	}
	rate, err1 := strconv.ParseFloat(args[2], 64)
	seconds, err2 := strconv.ParseFloat(args[3], 64)
	connections, err3 := strconv.Atoi(args[4])
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	l := load{rateRPS: rate, seconds: seconds, connections: connections}
	switch args[0] {
	case builtin:
		return runBuiltin(ctx, args[1], l, os.Stdout)
	case vegeta:
		return runVegeta(args[1], l, os.Stdout)
	case searchKind:
		return runSearch(ctx, args[1], l, os.Stdout)
	}
	return fmt.Errorf("unknown kind %q", args[0])
}

// scenario of the built-in engine: one endpoint over connections that are kept.
func scenario(path string, l load) analysis.Scenario {
	return analysis.Scenario{
		Kind: analysis.KindSearch, Engine: analysis.EngineBuiltin, Protocol: analysis.ProtocolHTTP1,
		MaxInFlight: l.connections, TimeoutMs: 30_000, KeepAlive: true, Seed: 1,
		Endpoints: []analysis.Endpoint{{Name: "bench", Path: path, Weight: 1}},
	}
}

func runBuiltin(ctx context.Context, url string, l load, out io.Writer) error {
	e, err := engine.New(url, scenario("/", l))
	if err != nil {
		return err
	}
	defer e.Close()
	s := e.Step(ctx, analysis.Probe{Phase: "bench", OfferedRPS: l.rateRPS, Seconds: l.seconds})
	return json.NewEncoder(out).Encode(told{
		Answered: s.Completed, Failed: s.Failed, Dropped: s.Dropped,
		P50Ms: s.P50Ms, P95Ms: s.P95Ms, P99Ms: s.P99Ms, LagP50Ms: s.SchedLagP50Ms,
	})
}

// runVegeta attacks with vegeta's library. It keeps no body, the cheapest way that
// vegeta has.
func runVegeta(url string, l load, out io.Writer) error {
	options := []func(*vegetalib.Attacker){vegetalib.MaxBody(0), vegetalib.KeepAlive(true)}
	var pacer vegetalib.Pacer = vegetalib.Rate{Freq: int(l.rateRPS), Per: time.Second}
	if l.rateRPS == 0 {
		n := uint64(l.connections)
		options = append(options, vegetalib.Workers(n), vegetalib.MaxWorkers(n), vegetalib.Connections(l.connections))
	}
	targeter := vegetalib.NewStaticTargeter(vegetalib.Target{Method: "GET", URL: url})
	var (
		m      vegetalib.Metrics
		sent   []time.Time // by sequence number
		t      = told{LagP50Ms: unknown}
		length = time.Duration(l.seconds * float64(time.Second))
	)
	for r := range vegetalib.NewAttacker(options...).Attack(targeter, pacer, length, "") {
		m.Add(r)
		if r.Error != "" {
			t.Failed++
			continue
		}
		t.Answered++
		if l.rateRPS > 0 {
			sent = append(sent, r.Timestamp.Add(-time.Duration(float64(r.Seq)/l.rateRPS*float64(time.Second))))
		}
	}
	m.Close()
	t.P50Ms, t.P95Ms, t.P99Ms = ms(m.Latencies.P50), ms(m.Latencies.P95), ms(m.Latencies.P99)
	t.LagP50Ms = lagP50(sent)
	return json.NewEncoder(out).Encode(t)
}

// lagP50 is the median of how late requests were sent. Of each it is given the real
// send less its place in the schedule, so the earliest tells when the schedule
// began: the lag can only be larger.
func lagP50(starts []time.Time) float64 {
	if len(starts) == 0 {
		return unknown
	}
	slices.SortFunc(starts, time.Time.Compare)
	return ms(starts[len(starts)/2].Sub(starts[0]))
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// ceiling is what a search found.
type ceiling struct {
	Status      string  `json:"status"`
	CeilingRPS  float64 `json:"ceilingRps"`
	LoadSeconds float64 `json:"loadSeconds"`
}

func parseCeiling(stdout []byte) (ceiling, error) {
	var c ceiling
	err := json.Unmarshal(stdout, &c)
	return c, err
}

// runSearch looks for the ceiling of /hold from the load's rate to ten times it.
func runSearch(ctx context.Context, url string, l load, out io.Writer) error {
	sc := scenario("/hold", l)
	sc.FloorRPS, sc.CapRPS, sc.Repeats = l.rateRPS, 10*l.rateRPS, 1
	sc.ProbeSeconds, sc.ProbeDiscard = 0.3*l.seconds, 0.1*l.seconds
	sc.StepSeconds, sc.StepDiscard = 0.5*l.seconds, 0.1*l.seconds
	sc.SLOP95Ms, sc.SLOErrorRatio = 500, 0.01
	e, err := engine.New(url, sc)
	if err != nil {
		return err
	}
	defer e.Close()
	result := analysis.Result{Version: 1, RunID: "bench", Scenario: sc}
	loaded := 0.0
	for {
		probe, done := analysis.Next(sc, result.Steps)
		if done {
			break
		}
		result.Steps = append(result.Steps, e.Step(ctx, probe))
		if err := ctx.Err(); err != nil {
			return err
		}
		loaded += probe.Seconds
	}
	if err := analysis.Validate(result); err != nil {
		return err
	}
	v := analysis.Analyze(result)
	return json.NewEncoder(out).Encode(ceiling{string(v.Status), v.CeilingRPS, loaded})
}
