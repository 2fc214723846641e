package analysis

import (
	"math"
	"math/rand/v2"
	"testing"
)

// A system whose capacity moves is measured after it moved, or the verdict says
// that it moves. It is never given the number of a state that it has left.
func TestMovingCapacities(t *testing.T) {
	const seeds = 20
	for _, row := range []struct {
		name     string
		capacity float64 // where it ends
		moves    func() mover
		numbers  int // runs of 20 that must give one
	}{
		{"the first minute is slow", 260, func() mover { return warmUp }, 19},
		{"a cache fills early", 390, func() mover { return cacheFills(8_000, 1.5) }, 18},
		{"a cache fills during the ramp", 390, func() mover { return cacheFills(25_000, 1.5) }, 17},
		{"a cache fills late", 520, func() mover { return cacheFills(50_000, 2) }, 12},
		{"an autoscaler adds one after 30 s", 520, func() mover { return autoscaler(260, 30, 2) }, 18},
		{"an autoscaler adds one after 60 s", 520, func() mover { return autoscaler(260, 60, 2) }, 18},
		{"an autoscaler adds two", 780, func() mover { return autoscaler(260, 45, 3) }, 12},
		{"a burst ends as the next round begins", 200, burst, 12},
	} {
		sc := DefaultScenario()
		sc.FloorRPS, sc.CapRPS = 20, 5000
		for _, sc.Repeats = range []int{1, 3} {
			numbers, wrong, longest := 0, 0, 0.0
			for seed := range uint64(seeds) {
				r := search(system{capacity: 260, servers: 4, moves: row.moves()}, sc, seed)
				v := Analyze(r)
				longest = max(longest, r.LoadSeconds/float64(len(v.Runs)))
				switch {
				case v.Ceiling == "none" && v.Status != StatusEnvironmentInvalid:
					t.Errorf("%s, seed %d: %s", row.name, seed, v.Status)
				case v.Ceiling == "none":
				case math.Abs(v.CeilingRPS/row.capacity-1) > 0.05:
					wrong++
					t.Logf("%s, seed %d, %d runs: %s %s of %g", row.name, seed, sc.Repeats, v.Status, v.Ceiling, row.capacity)
				default:
					numbers++
				}
			}
			t.Logf("%-34s %d runs: %2d of %d numbers right, %d wrong, at most %.0f s a run", row.name, sc.Repeats, numbers, seeds, wrong, longest)
			if numbers < row.numbers || wrong > 0 {
				t.Errorf("%s, %d runs: %d right and %d wrong of %d", row.name, sc.Repeats, numbers, wrong, seeds)
			}
			if longest > searchSeconds {
				t.Errorf("%s: %.0f s of load in a run", row.name, longest)
			}
		}
	}
}

// An autoscaler that is slower than settleSeconds is waited for where it is seen.
// Unseen, the ramp begins below its threshold, and some runs end before it added what
// it could.
func TestASlowAutoscalerIsWaitedFor(t *testing.T) {
	const seeds, capacity, most, delay = 10, 260, 2, 150
	sc := DefaultScenario()
	sc.FloorRPS, sc.CapRPS, sc.WarmupSeconds, sc.Repeats = 100, 5000, 0, 1
	for _, seen := range []bool{true, false} {
		full := 0
		for seed := range uint64(seeds) {
			replicas, before := 1.0, 1.0
			moves := autoscaler(capacity, delay, most)
			s := &simulation{
				system: system{capacity: capacity, servers: 4, limit: sc.MaxInFlight, moves: func(second, offered float64) float64 {
					replicas = moves(second, offered)
					return replicas
				}},
				random: rand.New(rand.NewPCG(seed, 1)), factor: 1,
			}
			r := Result{Version: 1, RunID: "sim", Scenario: sc}
			for len(r.Steps) < 500 {
				p, done := Next(sc, r.Steps)
				if done {
					break
				}
				step := s.step(p)
				if seen {
					step.Kubernetes = k3sOf(nil)
					a := hpa("web", int(replicas), most, p.OfferedRPS/(0.8*capacity*replicas))
					a.FirstReplicas = int(before)
					step.Kubernetes.Autoscalers = []AutoscalerUse{a}
				}
				before = replicas
				r.Steps = append(r.Steps, step)
				r.LoadSeconds += p.Seconds
			}
			v := Analyze(r)
			if math.Abs(v.CeilingRPS/(most*capacity)-1) < 0.05 {
				full++
			}
			t.Logf("seen %t, seed %d: %s %s after %.0f s", seen, seed, v.Status, v.Ceiling, r.LoadSeconds)
		}
		if seen && full < seeds {
			t.Errorf("the full capacity was found in %d of %d runs", full, seeds)
		}
		if !seen && full == seeds {
			t.Error("it is found without waiting too: the system shows nothing")
		}
	}
}
