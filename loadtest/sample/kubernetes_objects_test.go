package sample

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
)

func decoded[T any](t *testing.T, text string) T {
	t.Helper()
	var o T
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return o
}

func TestWhyNoNodeTakesAPod(t *testing.T) {
	for _, row := range []struct{ name, message, want string }{
		{"all short of CPU", "0/3 nodes are available: 3 Insufficient cpu.", "Insufficient cpu"},
		{"with what preemption said", "0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod.", "Insufficient cpu"},
		{"what is short comes before what is forbidden", "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }.", "Insufficient cpu"},
		{"the more of two shortages", "0/3 nodes are available: 1 Insufficient cpu, 2 Insufficient memory.", "Insufficient memory"},
		{"nothing is short", "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) didn't match pod anti-affinity rules.", "node(s) didn't match pod anti-affinity rules"},
		{"a reason of all nodes", "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found", "pod has unbound immediate PersistentVolumeClaims"},
		{"another text", "no nodes available to schedule pods", "no nodes available to schedule pods"},
	} {
		if got := refusal(row.message); got != row.want {
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
	}
}

func TestWorkloadOfAPod(t *testing.T) {
	for _, row := range []struct{ name, metadata, want string }{
		{"a Deployment", `{"name": "web-5d8c-x", "labels": {"pod-template-hash": "5d8c"}, "ownerReferences": [{"kind": "ReplicaSet", "name": "web-5d8c", "controller": true}]}`, "web"},
		{"a ReplicaSet of its own", `{"name": "web-x", "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "controller": true}]}`, "web"},
		{"a StatefulSet", `{"name": "db-0", "ownerReferences": [{"kind": "StatefulSet", "name": "db", "controller": true}]}`, "db"},
		{"an owner that does not control", `{"name": "x", "ownerReferences": [{"kind": "Node", "name": "server"}]}`, "x"},
		{"nobody's", `{"name": "alone"}`, "alone"},
	} {
		if got := decoded[pod](t, `{"metadata": `+row.metadata+`}`).workload(); got != row.want {
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
	}
}

func TestContainersThatDoNotStart(t *testing.T) {
	p := decoded[pod](t, `{"status": {
		"initContainerStatuses": [{"name": "a", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}],
		"containerStatuses": [{"name": "b", "state": {"waiting": {"reason": "PodInitializing"}}}, {"name": "c", "state": {"waiting": {"reason": "ImagePullBackOff"}}}, {"name": "d", "state": {"running": {}}}]}}`)
	if got := p.waits(); !slices.Equal(got, []string{"CrashLoopBackOff", "ImagePullBackOff"}) {
		t.Errorf("%q", got)
	}
}

// What happened to a sidecar, which is among the containers before the others, counts
// as well; of a pod that was not known, all of it.
func TestWhatHappenedToAPod(t *testing.T) {
	const killed = `"lastState": {"terminated": {"reason": "OOMKilled", "containerID": "c1"}}`
	state := func(init, containers string) pod {
		return decoded[pod](t, `{"status": {"initContainerStatuses": [`+init+`], "containerStatuses": [`+containers+`]}}`)
	}
	before := state(`{"name": "proxy", "restartCount": 1}`, `{"name": "web", "restartCount": 2, `+killed+`}`)
	for _, row := range []struct {
		name            string
		before          *pod
		now             pod
		restarts, kills int64
	}{
		{"nothing", &before, before, 0, 0},
		{"its sidecar was killed", &before, state(`{"name": "proxy", "restartCount": 2, "lastState": {"terminated": {"reason": "OOMKilled", "containerID": "c2"}}}`, `{"name": "web", "restartCount": 2, `+killed+`}`), 1, 1},
		{"it ended by itself", &before, state(``, `{"name": "web", "restartCount": 3, "lastState": {"terminated": {"reason": "Error", "containerID": "c3"}}}`), 1, 0},
		{"a new one", nil, before, 3, 1},
	} {
		if restarts, kills := happened(row.before, row.now); restarts != row.restarts || kills != row.kills {
			t.Errorf("%s: %d restarts and %d kills, want %d and %d", row.name, restarts, kills, row.restarts, row.kills)
		}
	}
}

// k3s says in a condition that a server is well; the others that hold are troubles.
func TestTroublesOfANode(t *testing.T) {
	n := decoded[node](t, `{"status": {"conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "DiskPressure", "status": "True"},
		{"type": "EtcdIsVoter", "status": "True"}, {"type": "Ready", "status": "True"}]}}`)
	if got := n.troubles(); !slices.Equal(got, []string{"DiskPressure"}) {
		t.Errorf("%q", got)
	}
}

func TestQuantities(t *testing.T) {
	for text, want := range map[string]float64{"500m": 0.5, "2": 2, "1.5k": 1500, "12e3": 12000, "2Ki": 2048, "1Gi": 1 << 30, "3E": 3e18, "250u": 250e-6, "0": 0} {
		if got, ok := quantity(text); !ok || math.Abs(got-want) > 1e-9*want {
			t.Errorf("%s: %g %t, want %g", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "m", "5x", "five"} {
		if got, ok := quantity(text); ok {
			t.Errorf("%q: %g", text, got)
		}
	}
}

func TestLoadOfAnAutoscaler(t *testing.T) {
	for _, row := range []struct {
		name, spec, status string
		want               float64
	}{
		{"percent of the request", `{"type": "Resource", "resource": {"target": {"averageUtilization": 50}}}`, `{"type": "Resource", "resource": {"current": {"averageUtilization": 75, "averageValue": "75m"}}}`, 1.5},
		{"a mean", `{"type": "Pods", "pods": {"target": {"averageValue": "200m"}}}`, `{"type": "Pods", "pods": {"current": {"averageValue": "0.1"}}}`, 0.5},
		{"of one container", `{"type": "ContainerResource", "containerResource": {"target": {"averageUtilization": 80}}}`, `{"type": "ContainerResource", "containerResource": {"current": {"averageUtilization": 80}}}`, 1},
		{"a value from outside", `{"type": "External", "external": {"target": {"value": "1k"}}}`, `{"type": "External", "external": {"current": {"value": "3k"}}}`, 3},
		{"the larger of two", `{"type": "Resource", "resource": {"target": {"averageUtilization": 50}}}, {"type": "Pods", "pods": {"target": {"averageValue": "1"}}}`,
			`{"type": "Resource", "resource": {"current": {"averageUtilization": 25}}}, {"type": "Pods", "pods": {"current": {"averageValue": "2"}}}`, 2},
		{"the first is not known", `{"type": "Resource", "resource": {"target": {"averageUtilization": 50}}}, {"type": "Pods", "pods": {"target": {"averageValue": "1"}}}`,
			`{"type": ""}, {"type": "Pods", "pods": {"current": {"averageValue": "2"}}}`, 2},
		{"not known yet", `{"type": "Resource", "resource": {"target": {"averageUtilization": 50}}}`, ``, -1},
	} {
		a := decoded[autoscaler](t, `{"spec": {"metrics": [`+row.spec+`]}, "status": {"currentMetrics": [`+row.status+`]}}`)
		if got := a.load(); math.Abs(got-row.want) > 1e-9 {
			t.Errorf("%s: %g, want %g", row.name, got, row.want)
		}
	}
}

func TestAnAutoscalerThatDoesNotScale(t *testing.T) {
	for _, row := range []struct{ name, conditions, want string }{
		{"it does", `{"type": "AbleToScale", "status": "True", "reason": "ReadyForNewScale"}, {"type": "ScalingActive", "status": "True", "reason": "ValidMetricFound"}`, ""},
		{"no metric", `{"type": "AbleToScale", "status": "True"}, {"type": "ScalingActive", "status": "False", "reason": "FailedGetResourceMetric"}`, "FailedGetResourceMetric"},
		{"no such target", `{"type": "AbleToScale", "status": "False", "reason": "FailedGetScale"}`, "FailedGetScale"},
		{"it waits to scale down", `{"type": "AbleToScale", "status": "False", "reason": "BackoffBoth"}`, ""},
	} {
		if got := decoded[autoscaler](t, `{"status": {"conditions": [`+row.conditions+`]}}`).problem(); got != row.want {
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
	}
}
