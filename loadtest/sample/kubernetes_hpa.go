package sample

import (
	"strconv"
	"strings"
)

// autoscaler is a HorizontalPodAutoscaler, autoscaling/v2.
type autoscaler struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		Target struct {
			Name string `json:"name"`
		} `json:"scaleTargetRef"`
		Max     int      `json:"maxReplicas"`
		Metrics []metric `json:"metrics"`
	} `json:"spec"`
	Status struct {
		Current    int         `json:"currentReplicas"`
		Desired    int         `json:"desiredReplicas"`
		Metrics    []metric    `json:"currentMetrics"`
		Conditions []condition `json:"conditions"`
	} `json:"status"`
}

// metric is one that pods are scaled by: in the spec its target is set, in the
// status what it is now.
type metric struct {
	Type      string  `json:"type"`
	Resource  measure `json:"resource"`
	Container measure `json:"containerResource"`
	Pods      measure `json:"pods"`
	Object    measure `json:"object"`
	External  measure `json:"external"`
}

type measure struct {
	Target  amount `json:"target"`
	Current amount `json:"current"`
}

// amount has one of these.
type amount struct {
	Utilization  *float64 `json:"averageUtilization"` // percent of the request
	AverageValue string   `json:"averageValue"`
	Value        string   `json:"value"`
}

func (a autoscaler) identity() metadata { return a.Metadata }

func (m metric) measure() measure {
	switch m.Type {
	case "Resource":
		return m.Resource
	case "ContainerResource":
		return m.Container
	case "Pods":
		return m.Pods
	case "Object":
		return m.Object
	case "External":
		return m.External
	}
	return measure{}
}

// load is the largest of its metrics ÷ their targets; −1 when none is known. The
// status has them in the spec's order.
func (a autoscaler) load() float64 {
	most := -1.0
	for i, m := range a.Spec.Metrics {
		if i >= len(a.Status.Metrics) || a.Status.Metrics[i].Type != m.Type {
			continue
		}
		target, current := m.measure().Target, a.Status.Metrics[i].measure().Current
		if target.Utilization != nil && current.Utilization != nil && *target.Utilization > 0 {
			most = max(most, *current.Utilization / *target.Utilization)
			continue
		}
		for _, pair := range [][2]string{{target.AverageValue, current.AverageValue}, {target.Value, current.Value}} {
			want, known := quantity(pair[0])
			is, measured := quantity(pair[1])
			if known && measured && want > 0 {
				most = max(most, is/want)
			}
		}
	}
	return most
}

// limited says whether it wanted more pods at its last look than it may have.
func (a autoscaler) limited() bool {
	c := find(a.Status.Conditions, "ScalingLimited")
	return c.Status == "True" && c.Reason == "TooManyReplicas" && a.Status.Current >= a.Spec.Max
}

// problem is why it does not scale at all; "" when it does.
func (a autoscaler) problem() string {
	if c := find(a.Status.Conditions, "ScalingActive"); c.Status == "False" {
		return c.Reason
	}
	if c := find(a.Status.Conditions, "AbleToScale"); c.Status == "False" && strings.HasPrefix(c.Reason, "Failed") {
		return c.Reason
	}
	return ""
}

// suffixes of a quantity, as powers: "500m", "2Ki", "1.5G".
var suffixes = map[string]float64{
	"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
	"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50, "Ei": 1 << 60,
}

// quantity reads a Kubernetes quantity.
func quantity(text string) (float64, bool) {
	if n, err := strconv.ParseFloat(text, 64); err == nil { // also "12e3"
		return n, true
	}
	end := strings.LastIndexAny(text, "0123456789.") + 1
	factor, ok := suffixes[text[end:]]
	n, err := strconv.ParseFloat(text[:end], 64)
	return n * factor, ok && err == nil
}
