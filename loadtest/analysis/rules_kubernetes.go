package analysis

import (
	"fmt"
	"math"
	"slices"
)

// The order of Kubernetes' limits, by score: a pod that found no node says more
// than an autoscaler at its maximum, and that more than a throttled pod.
const (
	scorePending   = 3.0
	scoreAtMax     = 2.0
	scoreThrottled = 1.0 // and half its ratio: all periods throttled say less still than an autoscaler
)

// podLimits are what keeps pods from doing more where no host is at its limit: no
// node for them, no more of them, or their own CPU limit. Pods that no Service
// leads to (a queue's workers) are no wall of requests, and only noted.
func podLimits(near []Step) []candidate {
	var found []candidate
	serves := map[string]bool{}
	for _, w := range podGroups(near) {
		severity := severityNote
		if w.Serves {
			severity, serves[w.Name] = severityPods, true
		}
		found = append(found, pendingPods(w, severity)...)
		if throttledPods(w) {
			found = append(found, candidate{severity, scoreThrottled + w.ThrottledRatio/2, Finding{"pods-throttled",
				fmt.Sprintf("%s pods throttled by their CPU limit in %d%% of periods", w.Name, percent(w.ThrottledRatio)),
				map[string]float64{"throttledRatio": w.ThrottledRatio, "pods": w.Pods}}})
		}
		found = append(found, notedPods(w)...)
	}
	for _, a := range autoscalers(near) {
		severity := severityNote
		if serves[a.Workload] {
			severity = severityPods
		}
		found = append(found, judgedAutoscaler(a, severity)...)
	}
	return slices.Concat(found, notedNodes(near))
}

// pendingPods are pods that the scheduler found no node for.
func pendingPods(w WorkloadUse, severity int) []candidate {
	var found []candidate
	for _, reason := range sortedKeys(w.Pending) {
		mean := w.Pending[reason]
		if mean < mostReadings {
			continue // for a moment only
		}
		found = append(found, candidate{severity, scorePending + mean/(mean+1), Finding{"pods-pending",
			fmt.Sprintf("%s Pending: %s", pods(mean, w.Name), reason), map[string]float64{"pending": mean, "pods": w.Pods, "readyPods": w.ReadyPods}}})
	}
	return found
}

// pods is a number of a workload's pods, in words: "7 web pods".
func pods(n float64, workload string) string {
	whole := math.Max(1, math.Round(n))
	if whole == 1 {
		return fmt.Sprintf("1 %s pod", workload)
	}
	return fmt.Sprintf("%.0f %s pods", whole, workload)
}

func throttledPods(w WorkloadUse) bool { return w.ThrottledRatio >= podThrottled }

func judgedAutoscaler(a AutoscalerUse, severity int) []candidate {
	figures := map[string]float64{
		"replicas": a.Replicas, "desiredReplicas": float64(a.DesiredReplicas), "maxReplicas": float64(a.MaxReplicas),
		"loadRatio": a.LoadRatio, "limitedRatio": a.LimitedRatio,
	}
	switch {
	case atMax(a):
		return []candidate{{severity, scoreAtMax, Finding{"hpa-at-max", fmt.Sprintf("HPA %s at max (%d) while over target", a.Name, a.MaxReplicas), figures}}}
	case a.Problem != "":
		return []candidate{{severityNote, scoreAtMax, Finding{"hpa-without-metric", fmt.Sprintf("HPA %s does not scale: %s", a.Name, a.Problem), figures}}}
	case a.FirstReplicas != a.LastReplicas:
		return []candidate{{severityNote, scoreAtMax, Finding{"hpa-scaling",
			fmt.Sprintf("HPA %s went from %d to %d pods in the steps at the ceiling", a.Name, a.FirstReplicas, a.LastReplicas), figures}}}
	}
	return nil
}

// atMax says whether an autoscaler has all the pods that it may, and wanted more.
func atMax(a AutoscalerUse) bool {
	return a.MaxReplicas > 0 && math.Round(a.Replicas) >= float64(a.MaxReplicas) && over(a)
}

func over(a AutoscalerUse) bool { return a.LimitedRatio >= mostReadings || a.LoadRatio > overTarget }

// killedPods are containers that ran out of memory. The host's count, which knows
// no names, holds the same kills.
func killedPods(near []Step) []candidate {
	var found []candidate
	for _, w := range podGroups(near) {
		if w.OOMKills > 0 {
			found = append(found, candidate{severityEvent, 3, Finding{"oom",
				fmt.Sprintf("%s pods out of memory (%d killed)", w.Name, w.OOMKills), map[string]float64{"oomKills": float64(w.OOMKills), "restarts": float64(w.Restarts)}}})
		}
	}
	return found
}

func notedPods(w WorkloadUse) []candidate {
	var found []candidate
	if w.Restarts > 0 {
		found = append(found, candidate{severityNote, float64(w.Restarts), Finding{"restarts",
			fmt.Sprintf("%s containers restarted (%d)", w.Name, w.Restarts), map[string]float64{"restarts": float64(w.Restarts)}}})
	}
	unready := w.Pods - w.ReadyPods
	for _, reason := range sortedKeys(w.Pending) {
		unready -= w.Pending[reason]
	}
	if unready >= mostReadings { // a probe that fails under load takes capacity away
		found = append(found, candidate{severityNote, unready, Finding{"pods-unready",
			pods(unready, w.Name) + " not Ready", map[string]float64{"unreadyPods": unready, "pods": w.Pods}}})
	}
	for _, reason := range sortedKeys(w.Waiting) {
		if n := w.Waiting[reason]; n >= mostReadings {
			found = append(found, candidate{severityNote, n, Finding{"pods-waiting",
				fmt.Sprintf("%s wait: %s", pods(n, w.Name), reason), map[string]float64{"containers": n}}})
		}
	}
	return found
}

func notedNodes(near []Step) []candidate {
	var found []candidate
	for _, n := range nodes(near) {
		for _, condition := range n.Conditions {
			found = append(found, candidate{severityNote, 1, Finding{"node-condition",
				fmt.Sprintf("node %s reports %s", n.Name, condition), map[string]float64{"pods": n.Pods}}})
		}
	}
	return found
}

// lostNodes says which nodes were not Ready, or were gone, in any of the steps: its
// pods were then elsewhere or nowhere, and the steps are not of one system.
func lostNodes(steps []Step) []string {
	var why []string
	seen, told := map[string]bool{}, map[string]bool{}
	tell := func(node, what string, s Step) {
		if !told[node] {
			why = append(why, fmt.Sprintf("node %s %s at %s req/s", node, what, formatRate(s.OfferedRPS)))
		}
		told[node] = true
	}
	for _, s := range steps {
		if len(clusters([]Step{s})) == 0 {
			continue
		}
		there := map[string]bool{}
		for _, n := range s.Kubernetes.Nodes {
			there[n.Name], seen[n.Name] = true, true
			if n.NotReadyRatio > 0 {
				tell(n.Name, "was NotReady", s)
			}
		}
		for _, name := range sortedKeys(seen) {
			if !there[name] {
				tell(name, "was gone", s)
			}
		}
	}
	return why
}

// scaling says whether an autoscaler of pods that serve was still at work when the
// step ended: its number moved, it wants another, or its new pods are not Ready yet.
// Below its maximum and over its target it will want more at its next look, unless
// the pods it has already find no node.
func scaling(s Step) bool {
	if len(clusters([]Step{s})) == 0 {
		return false
	}
	for _, a := range s.Kubernetes.Autoscalers {
		i := slices.IndexFunc(s.Kubernetes.Workloads, func(w WorkloadUse) bool { return w.Name == a.Workload && w.Serves })
		if i < 0 || a.Problem != "" {
			continue
		}
		w := s.Kubernetes.Workloads[i]
		moves := a.FirstReplicas != a.LastReplicas || a.DesiredReplicas != a.LastReplicas || w.StartingPods > 0
		if moves || over(a) && a.LastReplicas < a.MaxReplicas && len(w.Pending) == 0 {
			return true
		}
	}
	return false
}
