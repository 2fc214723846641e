package analysis

import (
	"fmt"
	"slices"
	"strings"
)

// hints say what was seen when nothing is at its limit.
func hints(sc Scenario, steps, near []Step) string {
	var out []string
	if n, flat := flatAt(sc, steps); flat {
		out = append(out, fmt.Sprintf("in flight is flat at %.0f: a pool of that size?", n))
	}
	bad, arrivals := map[string]int64{}, int64(0)
	for _, s := range near {
		arrivals += s.Arrivals
		for kind, n := range s.Errors {
			bad[kind] += n
		}
	}
	for _, kind := range []string{"status-429", "status-503"} {
		if arrivals > 0 && float64(bad[kind]) >= limiterRatio*float64(arrivals) {
			out = append(out, fmt.Sprintf("%d responses of %s: a limiter?", bad[kind], kind))
		}
	}
	watched := hosts(near)
	if len(watched) == 0 {
		out = append(out, "no host was watched")
	}
	for _, h := range watched {
		if h.Samples == 0 {
			out = append(out, "no samples of "+h.Host)
		}
	}
	if slices.ContainsFunc(near, func(s Step) bool { return s.Kubernetes != nil }) && len(clusters(near)) == 0 {
		out = append(out, "no samples of the cluster")
	}
	if len(out) == 0 {
		return ""
	}
	return " (" + strings.Join(out, "; ") + ")"
}

// flatAt says whether the number in flight stayed the same in the overloaded
// steps, below the generator's own cap.
func flatAt(sc Scenario, steps []Step) (float64, bool) {
	var inFlight []float64
	for _, s := range steps[max(firstFailure(steps), 0):] {
		inFlight = append(inFlight, s.InFlightMean)
	}
	if len(inFlight) < 2 {
		return 0, false
	}
	low, high := slices.Min(inFlight), slices.Max(inFlight)
	return median(inFlight), high > 1 && high < inFlightFull*float64(sc.MaxInFlight) && high-low <= flatInFlight*high
}
