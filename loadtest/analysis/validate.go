package analysis

import (
	"errors"
	"fmt"
	"math"
)

// Validate says whether a result is one at all. An exit code is no evidence: a
// generator can end well and have written nothing or measured nothing. A target
// that was down makes a valid result; its verdict says so. The search is not
// replayed: a later version may step otherwise, and old runs stay readable.
func Validate(r Result) error {
	var errs []error
	if r.Version != 1 {
		errs = append(errs, fmt.Errorf("result version %d, want 1", r.Version))
	}
	if r.RunID == "" {
		errs = append(errs, errors.New("result without a run id"))
	}
	if len(r.Steps) == 0 && r.Aborted == "" {
		errs = append(errs, errors.New("result without a step"))
	}
	for i, s := range r.Steps {
		if s.OfferedRPS <= 0 || s.Seconds <= 0 {
			errs = append(errs, fmt.Errorf("step %d: offered %g req/s over %g s", i, s.OfferedRPS, s.Seconds))
		}
		if s.Completed == 0 && s.P95Ms != 0 || s.Completed > 0 && (s.P95Ms <= 0 || math.IsNaN(s.P95Ms)) {
			errs = append(errs, fmt.Errorf("step %d: %d completed with a p95 of %g ms", i, s.Completed, s.P95Ms))
		}
		if min(s.Arrivals, s.Completed, s.Failed, s.Dropped, s.Arrivals-s.Dropped) < 0 {
			errs = append(errs, fmt.Errorf("step %d: %d arrivals, %d completed, %d failed, %d dropped", i, s.Arrivals, s.Completed, s.Failed, s.Dropped))
		}
	}
	return errors.Join(errs...)
}
