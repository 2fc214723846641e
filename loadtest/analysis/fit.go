package analysis

import "math"

// hockeyStick fits X = min(λ, C) to the steps by least absolute deviations,
// weighted by their lengths, and returns C. The minimum of such a sum lies where
// it bends: at a completed or an arrived rate, so trying those is exact.
func hockeyStick(steps []Step) float64 {
	loss := func(c float64) float64 {
		sum := 0.0
		for _, s := range steps {
			sum += s.Seconds * math.Abs(s.CompletedRPS()-min(s.arrivedRPS(), c))
		}
		return sum
	}
	best, at := math.Inf(1), 0.0
	for _, s := range steps {
		for _, c := range []float64{s.CompletedRPS(), s.arrivedRPS()} {
			if l := loss(c); l < best-1e-9 || (math.Abs(l-best) <= 1e-9 && c < at) {
				best, at = l, c
			}
		}
	}
	return at
}
