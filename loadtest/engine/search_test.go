package engine

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"lab/loadtest/analysis"
)

// A target of 20 places and 20 ms a request serves 1,000/s at most: fewer by
// what the sleep overshoots, which it measures itself.
func TestSearchFindsTheCapacityOfAKnownTarget(t *testing.T) {
	if testing.Short() {
		t.Skip("offers load for half a minute")
	}
	const places = 20
	var busy, served atomic.Int64
	slots := make(chan struct{}, places)
	url := serve(t, func(http.ResponseWriter, *http.Request) {
		slots <- struct{}{}
		start := time.Now()
		time.Sleep(20 * time.Millisecond)
		busy.Add(int64(time.Since(start)))
		served.Add(1)
		<-slots
	})
	sc := scenario("/")
	sc.Kind, sc.FloorRPS, sc.CapRPS = "search", 600, 4000
	sc.ProbeSeconds, sc.ProbeDiscard, sc.StepSeconds, sc.StepDiscard = 1.2, 0.3, 1.5, 0.5
	sc.SLOP95Ms, sc.SLOErrorRatio = 500, 0.01
	e := newEngine(t, url, sc)
	result := analysis.Result{Version: 1, RunID: "known", Scenario: sc}
	for {
		probe, done := analysis.Next(sc, result.Steps)
		if done {
			break
		}
		s := e.Step(context.Background(), probe)
		t.Logf("%s %g/s: completed %.1f, p95 %.1f ms, slope %.1f", s.Phase, s.OfferedRPS, s.CompletedRPS(), s.P95Ms, s.BacklogSlopeRPS)
		result.Steps = append(result.Steps, s)
	}
	if err := analysis.Validate(result); err != nil {
		t.Error(err)
	}
	capacity := places / (time.Duration(busy.Load() / served.Load()).Seconds())
	v := analysis.Analyze(result)
	t.Logf("capacity %.1f/s, verdict %s %.1f/s, %v", capacity, v.Status, v.CeilingRPS, v.Invalid)
	if v.Status != analysis.StatusFound {
		t.Fatalf("status %s: %v", v.Status, v.Invalid)
	}
	within(t, "ceiling", v.CeilingRPS, capacity, 0.05)
}
