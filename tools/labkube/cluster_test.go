package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// testCluster is a server and an agent.
type testCluster struct {
	t             *testing.T
	bin           string
	server, agent *testNode
}

func (c *testCluster) kubectlTry(args ...string) (string, error) {
	return c.server.try(append([]string{filepath.Join(c.bin, "labkube"), "kubectl", "--kubeconfig", c.server.kubeconfig()}, args...)...)
}

func (c *testCluster) kubectl(args ...string) string {
	c.t.Helper()
	out, err := c.kubectlTry(args...)
	if err != nil {
		c.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// wait asks by kubectl until what it prints is what is wanted.
func (c *testCluster) wait(what, want string, args ...string) {
	c.t.Helper()
	eventually(c.t, what, func() (string, error) { return c.kubectlTry(args...) }, func(got string) bool { return got == want })
}

func (c *testCluster) startServer() {
	c.server.start(c.bin, "server", "secrets-encryption: true\ncluster-cidr: 10.42.0.0/16\nresolv-conf: "+filepath.Join(c.server.dir, "none")+"\n")
}

// ready waits until the cluster says that both nodes are.
func (c *testCluster) ready() {
	c.t.Helper()
	c.wait("both nodes are ready", "agent=True server=True", "get", "nodes",
		`--output=jsonpath={range .items[*]}{.metadata.name}={.status.conditions[?(@.type=="Ready")].status} {end}`)
}

// TestCluster walks a server and an agent from nothing to nothing. The phases depend
// on each other, so they are one test.
func TestCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("a cluster takes a minute")
	}
	command(t, "../../scripts/labkube.sh")
	bin, err := filepath.Abs("../../.toolchain/labkube")
	if err != nil {
		t.Fatal(err)
	}
	before := kernelValues(t)
	newTestNetwork(t)
	c := &testCluster{t: t, bin: bin, server: newTestNode(t, "server", "10.85.0.11", bin), agent: newTestNode(t, "agent", "10.85.0.12", bin)}

	began := time.Now()
	said := func(what string) { t.Logf("%s after %.1f s", what, time.Since(began).Seconds()) }
	c.startServer()
	c.wait("the API is ready", "ok", "get", "--raw", "/readyz")
	said("/readyz")
	token := filepath.Join(c.server.dir, "data/server/node-token")
	eventually(t, "the server listens for agents", func() (string, error) {
		return c.server.try("bash", "-c", "exec 3<>/dev/tcp/10.85.0.11/9345")
	}, func(string) bool { return true })
	c.agent.start(bin, "agent", "server: https://10.85.0.11:6443\ntoken-file: "+token+"\nresolv-conf: "+filepath.Join(c.agent.dir, "none")+"\n")
	c.server.ready(1)
	c.agent.ready(1)
	c.ready()
	said("both nodes ready")

	c.pods()
	said("pods")
	c.names()
	c.metrics()
	said("metrics")
	if after := kernelValues(t); after != before {
		t.Errorf("the computer's kernel has %s, before %s", after, before)
	}
	c.groups()
	c.killedPart()
	said("a killed kubelet is back")
	c.restart()
	said("the server is back")
	c.agent.stop()
	c.server.stop()
	said("stopped")
}

// kernelValues are what a kubelet would set for the whole computer.
func kernelValues(t *testing.T) string {
	var all []string
	for name := range kernelSysctls {
		text, err := os.ReadFile(filepath.Join(proc, name))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, name+"="+strings.TrimSpace(string(text)))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// pods run on both nodes, and both nodes' port leads to each of them.
func (c *testCluster) pods() {
	c.t.Helper()
	folder := filepath.Join(c.server.dir, "test")
	if err := os.Mkdir(folder, 0o755); err != nil { // on both nodes: they share this computer's files
		c.t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", filepath.Join(folder, "pod"), "./testdata/pod")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		c.t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile("testdata/web.yaml")
	if err != nil {
		c.t.Fatal(err)
	}
	manifest := filepath.Join(c.server.dir, "web.yaml")
	if err := os.WriteFile(manifest, []byte(strings.ReplaceAll(string(text), "@FOLDER@", folder)), 0o644); err != nil {
		c.t.Fatal(err)
	}
	c.kubectl("apply", "--filename", manifest)
	c.wait("a pod is ready on each node", "2", "get", "daemonset", "web", "--output=jsonpath={.status.numberReady}")
	for _, from := range []*testNode{c.server, c.agent} {
		for _, address := range []string{c.server.address, c.agent.address} {
			missing := map[string]bool{"server": true, "agent": true}
			eventually(c.t, "from "+from.name+", port 30080 of "+address+" leads to both nodes' pods", func() (string, error) {
				got, err := from.try("curl", "--silent", "--max-time", "5", "http://"+address+":30080/")
				delete(missing, got)
				return got, err
			}, func(string) bool { return len(missing) == 0 })
		}
	}
}

// podOn is the name of the node's pod.
func (c *testCluster) podOn(node string) string {
	c.t.Helper()
	return c.kubectl("get", "pods", "--selector=app=web", "--field-selector=spec.nodeName="+node, "--output=jsonpath={.items[0].metadata.name}")
}

// names of the cluster resolve in a pod on either node, and the Service's address
// leads to pods.
func (c *testCluster) names() {
	c.t.Helper()
	for _, node := range []string{"server", "agent"} {
		for _, name := range []string{"web", "web.default.svc.cluster.local"} {
			eventually(c.t, name+" resolves on "+node, func() (string, error) {
				return c.kubectlTry("exec", c.podOn(node), "--", "/test/pod", "lookup", name)
			}, func(got string) bool { return got == "10.43.0.80" })
		}
		missing := map[string]bool{"server": true, "agent": true}
		eventually(c.t, "in a pod on "+node+", the Service leads to both nodes' pods", func() (string, error) {
			got, err := c.kubectlTry("exec", c.podOn(node), "--", "/test/pod", "get", "http://web/")
			delete(missing, got)
			return got, err
		}, func(string) bool { return len(missing) == 0 })
	}
}

// metrics are there of both nodes and of their pods.
func (c *testCluster) metrics() {
	c.t.Helper()
	for _, of := range []string{"nodes", "pods"} {
		eventually(c.t, "metrics of both "+of, func() (string, error) { return c.kubectlTry("top", of, "--no-headers") },
			func(got string) bool { return strings.Count(got, "\n") == 1 })
	}
}

// groups: what caps a machine caps its pods.
func (c *testCluster) groups() {
	c.t.Helper()
	for _, n := range []*testNode{c.server, c.agent} {
		dir := filepath.Join("/sys/fs/cgroup/cpu", testNet+"-"+n.name, "labkube/kubepods")
		out := command(c.t, "find", dir, "-name", "cgroup.procs", "-exec", "cat", "{}", "+")
		if len(strings.Fields(out)) < 2 { // the pod's program, and what keeps its namespaces
			c.t.Errorf("%s has the processes %q", dir, out)
		}
	}
}

// killedPart: a part that is killed comes back, and the pods don't notice.
func (c *testCluster) killedPart() {
	c.t.Helper()
	was := c.agent.parts("kubelet")
	if len(was) != 1 {
		c.t.Fatalf("the agent's kubelets: %q", was)
	}
	c.agent.run("kill", "-KILL", was[0])
	eventually(c.t, "another kubelet runs", func() (string, error) { return strings.Join(c.agent.parts("kubelet"), " "), nil },
		func(now string) bool { return now != "" && now != was[0] })
	c.ready()
}

// restart: the server stops in order, and starts with what it had.
func (c *testCluster) restart() {
	c.t.Helper()
	pods := func() string {
		return c.kubectl("get", "pods", "--selector=app=web", "--sort-by=.spec.nodeName", "--output=jsonpath={range .items[*]}{.metadata.uid} {.status.containerStatuses[0].restartCount} {end}")
	}
	c.kubectl("create", "secret", "generic", "kept", "--from-literal=a=b")
	was := pods()
	c.server.stop()
	if out, err := c.server.try("curl", "--silent", "--max-time", "5", "http://10.85.0.12:30080/"); err != nil {
		c.t.Errorf("without the server, the agent's pods answer %q, %v", out, err)
	}
	c.startServer()
	c.server.ready(2)
	c.ready()
	if got := c.kubectl("get", "secret", "kept", "--output=jsonpath={.data.a}"); got != "Yg==" {
		c.t.Errorf("the secret is %q", got)
	}
	if now := pods(); now != was {
		c.t.Errorf("pods and their restarts: %s, before %s", now, was)
	}
	c.wait("a pod is ready on each node", "2", "get", "daemonset", "web", "--output=jsonpath={.status.numberReady}")
}
