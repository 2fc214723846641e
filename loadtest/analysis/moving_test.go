package analysis

import (
	"math"
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
