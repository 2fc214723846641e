package engine

import (
	"context"
	"crypto/sha256"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"lab/loadtest/analysis"
)

// known is a target whose capacity it measures itself: so many requests are held
// at a time, and their mean time is counted.
type known struct {
	places       int
	hold         func()
	busy, served atomic.Int64
}

func (k *known) serve(t testing.TB) string {
	slots := make(chan struct{}, k.places)
	return serve(t, func(http.ResponseWriter, *http.Request) {
		slots <- struct{}{}
		start := time.Now()
		k.hold()
		k.busy.Add(int64(time.Since(start)))
		k.served.Add(1)
		<-slots
	})
}

// capacity is places ÷ the mean time that a request was held, a second.
func (k *known) capacity() float64 {
	return float64(k.places) * float64(k.served.Load()) / time.Duration(k.busy.Load()).Seconds()
}

// sleeper holds 20 requests for 20 ms each: 1,000/s at most, less what the sleep
// overshoots.
func sleeper() *known {
	return &known{places: 20, hold: func() { time.Sleep(20 * time.Millisecond) }}
}

// hasher does a fixed amount of work for one request at a time.
func hasher() *known {
	return &known{places: 1, hold: func() {
		sum := sha256.Sum256(nil)
		for range 8000 {
			sum = sha256.Sum256(sum[:])
		}
	}}
}

// search walks a scenario over a target.
func search(t testing.TB, k *known, sc analysis.Scenario) analysis.Verdict {
	t.Helper()
	e, err := New(k.serve(t), sc)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	result := analysis.Result{Version: 1, RunID: "known", Scenario: sc}
	for {
		probe, done := analysis.Next(sc, result.Steps)
		if done {
			break
		}
		result.Steps = append(result.Steps, e.Step(context.Background(), probe))
	}
	if err := analysis.Validate(result); err != nil {
		t.Error(err)
	}
	return analysis.Analyze(result)
}

func knownScenario(floor, top float64) analysis.Scenario {
	sc := scenario("/")
	sc.Kind, sc.FloorRPS, sc.CapRPS = analysis.KindSearch, floor, top
	sc.ProbeSeconds, sc.ProbeDiscard, sc.StepSeconds, sc.StepDiscard = 1.2, 0.3, 1.5, 0.5
	sc.SLOP95Ms, sc.SLOErrorRatio = 500, 0.01
	return sc
}

func TestSearchFindsTheCapacityOfAKnownTarget(t *testing.T) {
	if testing.Short() {
		t.Skip("offers load for half a minute")
	}
	k := sleeper()
	v := search(t, k, knownScenario(600, 4000))
	t.Logf("capacity %.1f/s, verdict %s %.1f/s, %v", k.capacity(), v.Status, v.CeilingRPS, v.Invalid)
	if v.Status != analysis.StatusFound {
		t.Fatalf("status %s: %v", v.Status, v.Invalid)
	}
	within(t, "ceiling", v.CeilingRPS, k.capacity(), 0.05)
}

// BenchmarkKnownCapacity prints how far ceilings of real targets are off what the
// targets measured of themselves, over ten runs of each. Run it with
// go test -bench KnownCapacity -benchtime 1x -run '^$' -timeout 30m ./loadtest/engine.
func BenchmarkKnownCapacity(b *testing.B) {
	for _, row := range []struct {
		name       string
		target     func() *known
		floor, top float64
	}{{"20 places of 20 ms", sleeper, 400, 4000}, {"fixed work, one at a time", hasher, 100, 8000}} {
		b.Run(row.name, func(b *testing.B) {
			const runs = 10
			for b.Loop() {
				var errors []float64
				for range runs {
					sc := knownScenario(row.floor, row.top)
					sc.StepSeconds, sc.StepDiscard = 3, 1
					k := row.target()
					v := search(b, k, sc)
					if v.Status != analysis.StatusFound {
						b.Logf("%s %v", v.Status, v.Invalid)
						continue
					}
					errors = append(errors, 100*(v.CeilingRPS/k.capacity()-1))
					b.Logf("ceiling %.1f of %.1f/s, %+.2f %%", v.CeilingRPS, k.capacity(), errors[len(errors)-1])
				}
				slices.Sort(errors)
				if n := len(errors); n > 0 {
					b.Logf("| %s | %d of %d runs | error %+.2f .. %+.2f %%, median %+.2f %% |", row.name, n, runs, errors[0], errors[n-1], errors[n/2])
				}
			}
		})
	}
}
