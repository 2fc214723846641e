package sample

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gopkg.in/yaml.v3"

	"lab/loadtest/analysis"
	"lab/loadtest/plan"
)

// podText is a pod of the Deployment web in the namespace lab, unless its changes
// say otherwise.
func podText(uid, nodeName, status string) string {
	return fmt.Sprintf(`{"metadata": {"uid": %q, "name": "web-5d8c-%s", "namespace": "lab", "labels": {"app": "web", "pod-template-hash": "5d8c"},
		"ownerReferences": [{"kind": "ReplicaSet", "name": "web-5d8c", "controller": true}]},
		"spec": {"nodeName": %q}, "status": %s}`, uid, uid, nodeName, status)
}

const (
	readyStatus   = `{"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [{"name": "web", "restartCount": 0, "state": {"running": {}}}]}`
	startStatus   = `{"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False"}], "containerStatuses": [{"name": "web", "state": {"waiting": {"reason": "ContainerCreating"}}}]}`
	refusedStatus = `{"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."}]}`
	killedStatus  = `{"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [{"name": "web", "restartCount": %d, "state": {"running": {}},
		"lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137, "containerID": "containerd://%d"}}}]}`
	serviceText = `{"metadata": {"uid": "s1", "name": "web", "namespace": "lab"}, "spec": {"selector": {"app": "web"}}}`
)

func nodeText(name, ready, trouble string) string {
	return fmt.Sprintf(`{"metadata": {"uid": "n-%s", "name": %q}, "status": {"nodeInfo": {"kubeletVersion": "v1.33.4+k3s1"},
		"conditions": [{"type": "MemoryPressure", "status": %q}, {"type": "Ready", "status": %q}]}}`, name, name, trouble, ready)
}

func hpaText(current, desired, utilization int, limited string) string {
	return fmt.Sprintf(`{"metadata": {"uid": "h1", "name": "web", "namespace": "lab"},
		"spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "minReplicas": 2, "maxReplicas": 6,
			"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}}]},
		"status": {"currentReplicas": %d, "desiredReplicas": %d,
			"currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": %d, "averageValue": "70m"}}}],
			"conditions": [{"type": "ScalingActive", "status": "True"}, {"type": "ScalingLimited", "status": %q, "reason": "TooManyReplicas"}]}}`, current, desired, utilization, limited)
}

// watching is a small cluster, and a reader that watches it.
func watching(t *testing.T) (*apiOfTest, *clusterWatch) {
	t.Helper()
	f := startAPI(t)
	f.put(t, nodesPath, nodeText("server", "True", "False"))
	f.put(t, nodesPath, nodeText("agent-1", "True", "True"))
	f.put(t, servicesPath, serviceText)
	f.put(t, autoscalersPath, hpaText(2, 3, 91, "False"))
	f.put(t, podsPath, podText("u1", "server", readyStatus))
	f.put(t, podsPath, podText("u2", "agent-1", startStatus))
	f.put(t, podsPath, podText("u3", "", refusedStatus))
	f.put(t, podsPath, `{"metadata": {"uid": "u4", "name": "dns-1", "namespace": "kube-system"}, "spec": {"nodeName": "server"}, "status": {"phase": "Running"}}`)
	f.put(t, podsPath, `{"metadata": {"uid": "u5", "name": "migrate-1", "namespace": "lab"}, "spec": {"nodeName": "server"}, "status": {"phase": "Succeeded"}}`)
	return f, watch(t, f, time.Hour)
}

func watch(t testing.TB, f *apiOfTest, idle time.Duration) *clusterWatch {
	t.Helper()
	api, err := readKubeconfig(f.kubeconfig(t))
	if err != nil {
		t.Fatal(err)
	}
	api.retry = time.Millisecond
	w := watchCluster(api, "lab", idle)
	t.Cleanup(w.stop)
	return w
}

func TestClusterTellsItsPodsNodesAndAutoscalers(t *testing.T) {
	_, w := watching(t)
	got, err := w.read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := &ClusterCounters{
		Distribution: "k3s",
		Autoscalers:  []AutoscalerCounters{{Name: "web", Workload: "web", Current: 2, Desired: 3, Max: 6, Load: 1.3}},
		Workloads: []WorkloadCounters{{Name: "web", Serves: true, Pods: 3, Ready: 1, Starting: 1,
			Pending: map[string]int{"Insufficient cpu": 1}, Waiting: map[string]int{}, UIDs: []string{"u1", "u2", "u3"}}},
		Nodes: []NodeCounters{{Name: "agent-1", Ready: true, Pods: 1, Conditions: []string{"MemoryPressure"}}, {Name: "server", Ready: true, Pods: 2}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Each kind is listed once; from then on the stream tells everything.
func TestClusterIsWatchedAndNotPolled(t *testing.T) {
	f, w := watching(t)
	if _, err := w.read(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.put(t, podsPath, podText("u2", "agent-1", readyStatus))
	f.remove(podsPath, "u3")
	f.put(t, autoscalersPath, hpaText(6, 6, 140, "True"))
	f.put(t, nodesPath, nodeText("agent-1", "Unknown", "False"))
	var c *ClusterCounters
	until(t, "the changes are seen", func() bool {
		c, _ = w.read(t.Context())
		return c != nil && !c.Nodes[0].Ready && c.Autoscalers[0].Current == 6 && c.Workloads[0].Pods == 2
	})
	if web := c.Workloads[0]; web.Ready != 2 || web.Starting != 0 || len(web.Pending) != 0 {
		t.Errorf("%+v; want two ready pods", web)
	}
	if a := c.Autoscalers[0]; a.Load != 2 || !a.Limited || a.Desired != 6 {
		t.Errorf("%+v; want it limited at twice its target", a)
	}
	for range 50 {
		if _, err := w.read(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "four watches", func() bool { _, open := f.counts(); return open == 4 })
	lists, _ := f.counts()
	want := map[string]int{podsPath: 1, nodesPath: 1, servicesPath: 1, autoscalersPath: 1}
	if diff := cmp.Diff(want, lists); diff != "" {
		t.Errorf("lists (-want +got):\n%s", diff)
	}
}

// Kills and restarts are counted once, also over a list that has to be made anew and
// after their pod is gone. Those from before are not counted.
func TestKillsAreCountedOnce(t *testing.T) {
	f := startAPI(t)
	f.put(t, podsPath, podText("u1", "server", fmt.Sprintf(killedStatus, 3, 1)))
	w := watch(t, f, time.Hour)
	seen := func(restarts, kills int64) func() bool {
		return func() bool {
			c, err := w.read(t.Context())
			return err == nil && len(c.Workloads) == 1 && c.Workloads[0].Restarts == restarts && c.Workloads[0].OOMKills == kills
		}
	}
	until(t, "what was there before counts for nothing", seen(0, 0))
	f.put(t, podsPath, podText("u1", "server", fmt.Sprintf(killedStatus, 4, 2)))
	until(t, "the first kill", seen(1, 1))
	f.put(t, podsPath, podText("u1", "agent-1", fmt.Sprintf(killedStatus, 4, 2))) // the same once more
	f.put(t, podsPath, podText("u2", "server", fmt.Sprintf(killedStatus, 1, 7)))
	until(t, "that of a pod that is new", seen(2, 2))

	f.forget()
	until(t, "the pods are listed anew", func() bool { lists, _ := f.counts(); return lists[podsPath] == 2 })
	f.put(t, podsPath, podText("u2", "server", fmt.Sprintf(killedStatus, 2, 8)))
	until(t, "one after the new list", seen(3, 3))
	f.remove(podsPath, "u1")
	f.remove(podsPath, "u2")
	until(t, "the pods are gone, what happened stays", func() bool { c, _ := w.read(t.Context()); return c != nil && c.Workloads[0].Pods == 0 })
	if !seen(3, 3)() {
		t.Error("the counts went with the pods")
	}
}

// A stream that breaks leaves a gap in the data, and not the last state for ever.
func TestABrokenWatchIsNoData(t *testing.T) {
	f, w := watching(t)
	if _, err := w.read(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.fail(http.StatusServiceUnavailable)
	var err error
	until(t, "all four are refused", func() bool {
		_, err = w.read(t.Context())
		return err != nil && strings.Count(err.Error(), "503") == 4
	})
	if !strings.Contains(err.Error(), podsPath) || !strings.Contains(err.Error(), "refused by the test") || strings.Contains(err.Error(), testToken) {
		t.Errorf("%v; want the kind and the reason, and no secret", err)
	}
	f.fail(0)
	until(t, "it answers again", func() bool { c, err := w.read(t.Context()); return err == nil && c.Workloads[0].Pods == 3 })
}

// An account that may not read is said at once, not after the time of a reading.
func TestWithoutTheRightToReadThereIsAnError(t *testing.T) {
	f := startAPI(t)
	f.fail(http.StatusForbidden)
	services := newServices(t, plan.Service{Kind: analysis.ServiceKubernetes, Address: f.kubeconfig(t), Namespace: "lab"})
	answers, err := services.Read()
	if len(answers) != 0 || err == nil || !strings.Contains(err.Error(), "kubernetes: ") || !strings.Contains(err.Error(), "403") {
		t.Errorf("%+v, %v; want no answer, and the reason", answers, err)
	}
	services.by[0].(*kubernetes).watch.stop()
}

// More than a page of pods are all there.
func TestAllPagesAreListed(t *testing.T) {
	f := startAPI(t)
	for i := range listLimit + 7 {
		f.put(t, podsPath, podText(fmt.Sprintf("u%d", i), "server", readyStatus))
	}
	c, err := watch(t, f, time.Hour).read(t.Context())
	if err != nil || c.Workloads[0].Ready != listLimit+7 {
		t.Errorf("%+v, %v", c, err)
	}
	if lists, _ := f.counts(); lists[podsPath] != 2 {
		t.Errorf("%d pages, want 2", lists[podsPath])
	}
}

// Nobody asks between load tests: the watches end, and the next question begins anew.
func TestWatchesEndWhenNobodyAsks(t *testing.T) {
	f, _ := watching(t)
	k := &kubernetes{service: plan.Service{Address: f.kubeconfig(t), Namespace: "lab"}}
	if _, err := k.ask(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := k.watch
	until(t, "eight watches", func() bool { _, open := f.counts(); return open == 8 })
	if _, err := k.ask(t.Context()); err != nil || k.watch != first {
		t.Errorf("%v; want the same watches", err)
	}
	first.unused.Reset(0)
	until(t, "four are left", func() bool { _, open := f.counts(); return open == 4 })
	if c, err := k.ask(t.Context()); err != nil || k.watch == first || c.Cluster.Workloads[0].Pods != 3 {
		t.Errorf("%+v, %v; want new watches", c.Cluster, err)
	}
	k.watch.stop()
}

func TestKubeconfigs(t *testing.T) {
	f := startAPI(t)
	raw, err := os.ReadFile(f.kubeconfig(t))
	if err != nil {
		t.Fatal(err)
	}
	const server, ca, token = "https://127.0.0.1:6443", "certificate-authority-data: eA==", "token: x"
	for _, row := range []struct{ name, text, want string }{
		{"a good one", string(raw), ""},
		{"no YAML", "token: [" + testToken, "is no YAML"},
		{"no such context", strings.Replace(string(raw), "current-context: lab", "current-context: gone", 1), `"gone" names no context`},
		{"clear text", kubeconfigText("http://127.0.0.1:6443", ca, token), "want https://"},
		{"an unchecked server", kubeconfigText(server, "insecure-skip-tls-verify: true", token), "would not be checked"},
		{"no authority", kubeconfigText(server, ca, token), "no certificate in it"},
		{"an authority that is not there", kubeconfigText(server, "certificate-authority: /does/not/exist", token), "certificate-authority: "},
		{"nobody", strings.Replace(string(raw), "token: "+testToken, "username: x", 1), "neither a token nor a client certificate"},
		{"half a client certificate", strings.Replace(string(raw), "token: "+testToken, "client-certificate-data: eA==", 1), "client-key: "},
	} {
		_, err := newAPIServer([]byte(row.text))
		if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%s: %v, want %q", row.name, err, row.want)
		}
		if err != nil && strings.Contains(err.Error(), testToken) {
			t.Errorf("%s: the token is in the error: %v", row.name, err)
		}
	}
	api, err := readKubeconfig(f.kubeconfig(t))
	if err != nil || api.client.Transport.(*http.Transport).IdleConnTimeout == 0 {
		t.Errorf("%v; want connections that end some time after their watches", err)
	}
	if _, err := readKubeconfig(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there was read")
	}
	if _, err := NewServices([]plan.Service{{Kind: analysis.ServiceKubernetes, Address: "x"}}); err == nil || !strings.Contains(err.Error(), "namespace") {
		t.Errorf("%v; want the namespace named", err)
	}
}

// What a reading of a large cluster costs, once it is listed.
func BenchmarkReadOfAThousandPods(b *testing.B) {
	f := startAPI(b)
	f.put(b, servicesPath, serviceText)
	for i := range 1000 {
		f.put(b, podsPath, podText(fmt.Sprintf("u%d", i), "server", readyStatus))
	}
	w := watch(b, f, time.Hour)
	for b.Loop() {
		if _, err := w.read(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// The account that the manifest makes may list and watch what is watched, and has
// no other right: a sampler's kubeconfig lies on a host.
func TestTheReadersAccountMayOnlyWatch(t *testing.T) {
	raw, err := os.ReadFile("../files/kubernetes-reader.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var granted []string
	for d := yaml.NewDecoder(bytes.NewReader(raw)); ; {
		var o struct {
			Kind  string `yaml:"kind"`
			Rules []struct {
				Groups    []string `yaml:"apiGroups"`
				Resources []string `yaml:"resources"`
				Verbs     []string `yaml:"verbs"`
			} `yaml:"rules"`
		}
		if err := d.Decode(&o); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		for _, rule := range o.Rules {
			for _, group := range rule.Groups {
				for _, resource := range rule.Resources {
					granted = append(granted, fmt.Sprintf("%s %s/%s %v", o.Kind, group, resource, rule.Verbs))
				}
			}
		}
	}
	var used []string
	for _, path := range []string{podsPath, nodesPath, servicesPath, autoscalersPath} {
		group := ""
		if rest, ok := strings.CutPrefix(path, "/apis/"); ok {
			group, _, _ = strings.Cut(rest, "/")
		}
		used = append(used, fmt.Sprintf("ClusterRole %s/%s [list watch]", group, filepath.Base(path)))
	}
	if diff := cmp.Diff(used, granted, cmpopts.SortSlices(func(a, b string) bool { return a < b })); diff != "" {
		t.Errorf("(-used +granted):\n%s", diff)
	}
}

// A version that the API server has forgotten is no gap in the data: the next list
// follows. Every other end of a stream is one, and a list that fails in whatever way.
func TestAForgottenVersionIsNoGap(t *testing.T) {
	for _, row := range []struct {
		text string
		gap  bool
	}{
		{`{"code": 410, "message": "too old resource version"}`, false},
		{`{"code": 500, "message": "etcd is gone"}`, true},
	} {
		k := newKept[pod](podsPath, &sync.Mutex{})
		k.replace(nil)
		_, err := k.take(event{"ERROR", json.RawMessage(row.text)}, "7")
		if k.report(err, false); err == nil || (k.err != nil) != row.gap {
			t.Errorf("%s: %v, kept as %v; want a gap: %t", row.text, err, k.err, row.gap)
		}
	}
	k := newKept[pod](podsPath, &sync.Mutex{})
	k.replace(nil)
	if k.report(errExpired, true); k.err == nil {
		t.Error("a list that was cut short left what there was as known")
	}
}

// What was never listed is not an empty cluster, whose nodes would be gone.
func TestAClusterThatWasNeverListedIsNotEmpty(t *testing.T) {
	f := startAPI(t)
	f.put(t, nodesPath, nodeText("server", "True", "False"))
	f.fail(http.StatusGone)
	w := watch(t, f, time.Hour)
	if c, err := w.read(t.Context()); err == nil {
		t.Errorf("%+v; want an error", c)
	}
	f.fail(0)
	until(t, "it is listed", func() bool { c, err := w.read(t.Context()); return err == nil && len(c.Nodes) == 1 })
}

// A server that is none of Kubernetes would otherwise be listed again and again, a
// thousand times a second.
func TestAListWithoutAVersionIsAnError(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"items": []}`) }))
	defer s.Close()
	k := newKept[pod](podsPath, &sync.Mutex{})
	if version, err := k.list(t.Context(), &apiServer{base: s.URL, client: s.Client()}); err == nil || !strings.Contains(err.Error(), "resourceVersion") || k.err == nil {
		t.Errorf("version %q, %v, kept as %v", version, err, k.err)
	}
}

// Of what lies in other namespaces is told what it lacks, not that requests need it.
func TestPodsElsewhereServeNobody(t *testing.T) {
	f := startAPI(t)
	f.put(t, servicesPath, `{"metadata": {"uid": "s2", "name": "dns", "namespace": "kube-system"}, "spec": {"selector": {"app": "dns"}}}`)
	f.put(t, podsPath, `{"metadata": {"uid": "u9", "name": "dns-1", "namespace": "kube-system", "labels": {"app": "dns"}}, "status": `+refusedStatus+`}`)
	c, err := watch(t, f, time.Hour).read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []WorkloadCounters{{Name: "kube-system/dns-1", Pods: 1, Pending: map[string]int{"Insufficient cpu": 1}, Waiting: map[string]int{}}}
	if diff := cmp.Diff(want, c.Workloads); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
