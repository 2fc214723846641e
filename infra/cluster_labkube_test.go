package infra

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lab/infra/nspawn"
)

// pauses runs a pod without work on every node.
const pauses = `labkube kubectl --kubeconfig /etc/labkube/labkube.yaml apply -f - <<'YAML' >/dev/null
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: pause}
spec:
  selector: {matchLabels: {app: pause}}
  template:
    metadata: {labels: {app: pause}}
    spec:
      containers:
      - {name: pause, image: "labkube.local/pause:1", imagePullPolicy: Never, resources: {limits: {cpu: 100m, memory: 16Mi}}}
YAML
labkube kubectl --kubeconfig /etc/labkube/labkube.yaml rollout status daemonset pause --timeout=90s`

// TestLabkubeOnMachines walks a cluster of labkube, a server and an agent, from
// nothing to nothing.
func TestLabkubeOnMachines(t *testing.T) {
	if testing.Short() {
		t.Skip("two machines with a cluster take half a minute")
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	s := &liveCluster{live: newLive(t, "server", "agent"), t: t, config: Defaults()}
	for _, name := range []string{"go.mod", "scripts", "tools"} { // what labkube's digest is of
		if err := os.Symlink(filepath.Join(root, name), name); err != nil {
			t.Fatal(err)
		}
	}
	c := &s.config
	c.Network = NetworkConfig{Name: "lab-lk-test", Subnet: "10.87.0.0/24", Loopback: "127.87.0.0/24"}
	c.Hosts = []HostConfig{
		{Name: "server", Kind: KindNspawn, Roles: []string{RoleServer}, CPUs: 1, MemoryMiB: 1024},
		{Name: "agent", Kind: KindNspawn, Roles: []string{RoleAgent}, CPUs: 0.4, MemoryMiB: 512, Labels: map[string]string{"disk": "nvme"}},
		// Its services are not what is tested: it is not brought up.
		{Name: "rest", Kind: KindNspawn, Roles: []string{RoleDatabase, RoleCache, RoleEdge, RoleLoadgen}, CPUs: 0.5, MemoryMiB: 512},
	}
	c.Cluster.Distribution = DistributionLabkube
	if problems := c.problems(); len(problems) > 0 {
		t.Fatal(problems)
	}

	s.mustUp()
	if ran := s.mustUp(); len(ran) > 0 {
		t.Errorf("nothing changed, but these ran: %v", ran)
	}
	const nodes = "labkube kubectl --kubeconfig /etc/labkube/labkube.yaml get nodes --no-headers " +
		"--output=custom-columns='N:.metadata.name,R:.status.conditions[?(@.type==\"Ready\")].status,L:.metadata.labels.disk' | tr -s ' '"
	if got := s.on("server", nodes); got != "agent True nvme\nserver True <none>" {
		t.Errorf("nodes: %q", got)
	}
	s.on("server", pauses)
	for _, machine := range []string{"server", "agent"} {
		podsWithin(t, c.Network.Name, machine)
	}

	s.on("agent", "systemctl kill --signal=KILL --kill-who=main labkube-agent && sleep 1 && for i in $(seq 60); do systemctl is-active --quiet labkube-agent && exit; sleep 0.5; done; exit 1")
	podsWithin(t, c.Network.Name, "agent") // they run on

	// A destroy asks nothing of the cluster or of a host that is off.
	s.on("server", "systemctl stop labkube")
	s.seen, s.ran = map[string]bool{}, nil
	if err := s.deleteRest(); err != nil || len(s.ran) > 0 {
		t.Errorf("destroy: %v; it ran %v on the hosts", err, s.ran)
	}
	if err := nspawn.NetworkDown(t.Context(), s.stateDir, c.Network.Name); err != nil {
		t.Errorf("network down: %v", err)
	}
	if left := podsOf(t, c.Network.Name); len(left) > 0 {
		t.Errorf("left of the pods: %v", left)
	}
}

// podsOf are the groups of the pods' processes on a lab's machines.
func podsOf(t *testing.T, network string) (groups []string) {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		if name, _ := os.ReadFile(line); !strings.HasPrefix(string(name), "/pause\x00") {
			continue
		}
		all, _ := os.ReadFile(filepath.Join(filepath.Dir(line), "cgroup"))
		for group := range strings.Lines(string(all)) {
			if strings.Contains(group, "/"+network+"-") {
				groups = append(groups, strings.TrimSpace(group))
			}
		}
	}
	return groups
}

// podsWithin wants a machine's pods in groups below the machine's own that bound
// CPU and memory: its caps are theirs.
func podsWithin(t *testing.T, network, machine string) {
	t.Helper()
	groups := podsOf(t, network)
	for _, controller := range []string{"cpu", "memory"} {
		if !slices.ContainsFunc(groups, func(g string) bool {
			fields := strings.SplitN(g, ":", 3)
			bounds := fields[1] == "" || slices.Contains(strings.Split(fields[1], ","), controller)
			return bounds && strings.HasPrefix(fields[2], "/"+network+"-"+machine+"/") && strings.Contains(fields[2], "kubepods")
		}) {
			t.Errorf("no pod of %s is in its machine's group of the controller %s: %v", machine, controller, groups)
		}
	}
}
