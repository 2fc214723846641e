package analysis

import (
	"math"
	"math/rand/v2"
	"slices"
)

const (
	maxNoiseRatio = 0.10 // spread of the runs' ceilings ÷ their median: above it they are not one ceiling
	resamples     = 2000 // of the bootstrap
	intervalRatio = 0.90 // of the resampled ceilings lie in the interval
	minBlocks     = 6    // fewer blocks tell less about their spread than counting does
)

// interval is where the ceiling lies, at 90 %: a bootstrap (Efron 1979) over the
// blocks of completions of the overloaded steps, and over the runs where there are
// several. A retrograde run has no plateau: its ceiling is between the last
// sustained rate and the first that failed.
func interval(runs []reading, seed int64) (low, high float64) {
	random := rand.New(rand.NewPCG(uint64(seed), 0x696e7476))
	draws := make([]func() float64, 0, len(runs))
	for _, r := range runs {
		draws = append(draws, r.draw(random))
	}
	ceilings := make([]float64, resamples)
	one := make([]float64, len(runs))
	for i := range ceilings {
		for j := range one {
			one[j] = draws[random.IntN(len(draws))]()
		}
		ceilings[i] = median(one)
	}
	slices.Sort(ceilings)
	cut := int(math.Round((1 - intervalRatio) / 2 * resamples))
	return ceilings[cut], ceilings[resamples-1-cut]
}

// draw gives a resampled ceiling of the run at each call.
func (r reading) draw(random *rand.Rand) func() float64 {
	if r.status != StatusFound {
		low, high := r.ceilingRPS, r.ceilingRPS
		if first := firstFailure(r.steps); r.status == StatusRetrograde && first > 0 {
			high = max(low, r.steps[first].OfferedRPS)
		}
		return func() float64 { return low + random.Float64()*(high-low) }
	}
	over := plateau(r.history)
	blocks := blockRates(over)
	if len(blocks) < minBlocks {
		n := 0.0
		for _, s := range over {
			n += float64(s.Completed)
		}
		return func() float64 { return r.ceilingRPS * (1 + random.NormFloat64()/math.Sqrt(max(n, 1))) }
	}
	mean := average(blocks)
	return func() float64 {
		sum := 0.0
		for range blocks {
			sum += blocks[random.IntN(len(blocks))]
		}
		return r.ceilingRPS + sum/float64(len(blocks)) - mean
	}
}

// blockRates are the completed rates of the steps' blocks; of a step without
// blocks, its own.
func blockRates(steps []Step) []float64 {
	var all []float64
	for _, s := range steps {
		if len(s.Blocks) == 0 || s.BlockSeconds <= 0 {
			all = append(all, s.CompletedRPS())
		}
		for _, n := range s.Blocks {
			all = append(all, float64(n)/s.BlockSeconds)
		}
	}
	return all
}

func average(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(max(len(values), 1))
}

// noise is the spread of the runs' ceilings ÷ their median; 0 for one run.
func noise(runs []reading) float64 {
	var all []float64
	for _, r := range runs {
		all = append(all, r.ceilingRPS)
	}
	if len(all) < 2 || median(all) <= 0 {
		return 0
	}
	return (slices.Max(all) - slices.Min(all)) / median(all)
}
