package analysis

import (
	"fmt"
	"math"
)

const (
	maxDropRatio  = 0.001 // of a sustained step's arrivals
	maxErrorRatio = 0.01  // of a sustained step's arrivals
	minTolerance  = 0.02
)

// CompletedRPS is the completed rate over the step's window.
func (s Step) CompletedRPS() float64 {
	if s.Seconds <= 0 {
		return 0
	}
	return float64(s.Completed) / s.Seconds
}

// arrivedRPS is the rate at which requests really were due in the window: the
// schedule's rate but for the rounding of a count.
func (s Step) arrivedRPS() float64 {
	if s.Seconds <= 0 || s.Arrivals == 0 {
		return s.OfferedRPS
	}
	return float64(s.Arrivals) / s.Seconds
}

// tolerance is max(2 %, 2/√n) for n arrivals: below it a shortfall is counting noise.
func (s Step) tolerance() float64 {
	return max(minTolerance, 2/math.Sqrt(float64(max(s.Arrivals, 1))))
}

// Sustained says whether the system kept up with a step, and if not why: drops
// at most 0.1 %, errors at most 1 %, completions within tolerance of arrivals,
// and no growing backlog.
func Sustained(s Step) (ok bool, reason string) {
	tolerance, arrived := s.tolerance(), s.arrivedRPS()
	switch {
	case s.Completed == 0:
		return false, "nothing completed"
	case s.tooManyDropped():
		return false, fmt.Sprintf("%d of %d arrivals dropped", s.Dropped, s.Arrivals)
	case float64(s.Failed) > max(1, maxErrorRatio*float64(s.Arrivals)):
		return false, fmt.Sprintf("%d responses were errors", s.Failed)
	case s.CompletedRPS() < (1-tolerance)*arrived:
		return false, fmt.Sprintf("%.1f/s completed of %.1f/s offered", s.CompletedRPS(), arrived)
	case s.BacklogSlopeRPS > tolerance*arrived:
		return false, fmt.Sprintf("in flight grew by %.1f a second", s.BacklogSlopeRPS)
	}
	return true, ""
}

func (s Step) tooManyDropped() bool {
	return float64(s.Dropped) > max(1, maxDropRatio*float64(s.Arrivals))
}

// inSLO says whether a step met the scenario's latency and error targets.
func inSLO(sc Scenario, s Step) bool {
	if s.Completed == 0 || s.Arrivals == 0 {
		return false // no data is not 0 ms
	}
	bad := float64(s.Failed+s.Dropped) / float64(s.Arrivals)
	return s.P95Ms <= sc.SLOP95Ms && bad <= sc.SLOErrorRatio
}
