package infra

import (
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
)

// liveCluster is a cluster on machines of this computer.
type liveCluster struct {
	*live
	t      *testing.T
	config Config
}

// standinCluster is one of a stand-in for k3s.
type standinCluster struct {
	liveCluster
	dir  string            // of the stand-ins, by version
	sums map[string]string // of them
}

func newStandinCluster(t *testing.T) *standinCluster {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	s := &standinCluster{liveCluster{t: t, config: Defaults()}, t.TempDir(), map[string]string{}}
	for _, version := range []string{"v1.34.1+k3s1", "v1.35.2+k3s1", "v1.36.4+k3s1"} {
		s.sums[version] = standin(t, root, filepath.Join(s.dir, version), version)
	}
	c := &s.config
	c.Network = NetworkConfig{Name: "lab-k3s-test", Subnet: "10.84.0.0/24", Loopback: "127.84.0.0/24"}
	c.Hosts = []HostConfig{
		{Name: "server", Kind: KindNspawn, Roles: []string{RoleServer}, CPUs: 0.5, MemoryMiB: 1024},
		{Name: "agent-1", Kind: KindNspawn, Roles: []string{RoleAgent}, CPUs: 0.5, MemoryMiB: 512, Labels: map[string]string{"disk": "nvme"}, Taints: []string{"dedicated=db:NoSchedule"}},
		{Name: "agent-2", Kind: KindNspawn, Roles: []string{RoleAgent}, CPUs: 0.5, MemoryMiB: 512},
		// Its services are not what is tested: it is not brought up.
		{Name: "rest", Kind: KindNspawn, Roles: []string{RoleApp, RoleDatabase, RoleCache, RoleEdge, RoleLoadgen}, CPUs: 0.5, MemoryMiB: 512},
	}
	c.Cluster.Distribution = DistributionK3s
	c.Cluster.Path = filepath.Join(s.dir, "{version}")
	c.Cluster.Traefik, c.Cluster.Disable = true, []string{"servicelb"}
	s.pin("v1.35.2+k3s1", "")
	if problems := c.problems(); len(problems) > 0 {
		t.Fatal(problems)
	}
	s.live = newLive(t, "server", "agent-1", "agent-2")
	return s
}

// pin sets a version with its sum, or with another one.
func (s *standinCluster) pin(version, sum string) {
	if sum == "" {
		sum = s.sums[version]
	}
	s.config.Cluster.Version, s.config.Cluster.SHA256 = version, map[string]string{runtime.GOARCH: sum}
}

// on is what a command prints on a host.
func (s *liveCluster) on(host, command string) string {
	s.t.Helper()
	out, err := remotely(s.done[remoteCommand+" "+host+"-stage"].args.Inputs["connection"], command, "")
	if err != nil {
		s.t.Errorf("%s on %s: %v", command, host, err)
	}
	return strings.TrimSpace(out)
}

// events are what changed in the cluster since they were last asked for.
func (s *standinCluster) events() string {
	s.t.Helper()
	return s.on("server", "cd /var/lib/rancher/k3s/server && cat events && : >events")
}

// mustUp is an up that may not fail.
func (s *liveCluster) mustUp() []string {
	s.t.Helper()
	ran, err := s.up(s.config)
	if err != nil {
		s.t.Fatal(err)
	}
	return ran
}

// TestK3sScriptsOnMachines walks a cluster of a stand-in from nothing to a node
// taken out. The phases depend on each other, so they are one test.
func TestK3sScriptsOnMachines(t *testing.T) {
	if testing.Short() {
		t.Skip("three machines take a minute")
	}
	s := newStandinCluster(t)
	if _, err := s.up(s.config); err == nil || !strings.Contains(err.Error(), "without a default route") {
		t.Fatalf("without a default route: %v", err)
	}
	for _, host := range []string{"server", "agent-1", "agent-2"} {
		connection := s.connection(host)
		if _, err := remotely(connection, "ip route add default via 10.84.0.1", ""); err != nil {
			t.Fatal(err)
		}
	}

	s.mustUp()
	want := "start server v1.35.2+k3s1\nannotate server\nuncordon server\n" +
		"start agent-1 v1.35.2+k3s1\nlabel agent-1\ntaint agent-1\nannotate agent-1\nuncordon agent-1\n" +
		"start agent-2 v1.35.2+k3s1\nannotate agent-2\nuncordon agent-2"
	if diff := cmp.Diff(want, s.events()); diff != "" {
		t.Errorf("installed (-want +got):\n%s", diff)
	}
	if got := s.on("agent-1", "stat -c %a /etc/rancher/k3s/config.yaml.d/10-lab-token.yaml; systemctl is-enabled k3s-agent; readlink /usr/local/bin/k3s"); got != "600\nenabled\n/usr/local/lib/lab/cluster/current/k3s" {
		t.Errorf("on agent-1: %q", got)
	}
	if got := s.on("server", "cd /var/lib/rancher/k3s/server && stat -c %a . manifests/lab-traefik.yaml && grep kind: manifests/lab-traefik.yaml"); got != "700\n600\nkind: HelmChartConfig\n      kind: DaemonSet" {
		t.Errorf("Traefik's settings: %q", got)
	}
	token := s.on("server", "cat /etc/rancher/k3s/config.yaml.d/10-lab-token.yaml /var/lib/rancher/k3s/server/node-token")
	if ran := s.mustUp(); len(ran) > 0 {
		t.Errorf("nothing changed, but these ran: %v", ran)
	}

	s.refusals()
	s.upgrade()
	if now := s.on("server", "cat /etc/rancher/k3s/config.yaml.d/10-lab-token.yaml /var/lib/rancher/k3s/server/node-token"); now != token {
		t.Error("an upgrade changed the tokens")
	}
	s.failure()
	s.removal()
	s.destroyed()
}

// connection is the way to a machine from what was declared before anything on it
// succeeded.
func (s *standinCluster) connection(host string) (c resource.PropertyValue) {
	s.t.Helper()
	for _, d := range s.declared {
		if d.TypeToken == remoteCommand && d.Name == host+"-stage" {
			return d.Inputs["connection"]
		}
	}
	s.t.Fatalf("no script of %s was declared", host)
	return c
}

// refusals: what is refused is so before any node is touched.
func (s *standinCluster) refusals() {
	s.t.Helper()
	for _, row := range []struct{ name, version, sum, want string }{
		{"a wrong sum", "v1.36.4+k3s1", strings.Repeat("0", 64), "nothing was replaced"},
		{"an older version", "v1.34.1+k3s1", "", "v1.34.1+k3s1 is older"},
	} {
		s.pin(row.version, row.sum)
		if _, err := s.up(s.config); err == nil || !strings.Contains(err.Error(), row.want) {
			s.t.Errorf("%s: %v, want %q", row.name, err, row.want)
		}
		if got := s.events(); got != "" {
			s.t.Errorf("%s: the cluster was touched: %s", row.name, got)
		}
	}
}

// upgrade: node by node, drained before and opened after.
func (s *standinCluster) upgrade() {
	s.t.Helper()
	s.pin("v1.36.4+k3s1", "")
	s.mustUp()
	var want []string
	for _, node := range []string{"server", "agent-1", "agent-2"} {
		want = append(want, "drain "+node, "start "+node+" v1.36.4+k3s1")
		if node == "agent-1" {
			want = append(want, "label agent-1", "taint agent-1")
		}
		want = append(want, "annotate "+node, "uncordon "+node)
	}
	if diff := cmp.Diff(strings.Join(want, "\n"), s.events()); diff != "" {
		s.t.Errorf("upgraded (-want +got):\n%s", diff)
	}
	if got := s.on("agent-1", "k3s --version | head -n 1; ls /usr/local/lib/lab/cluster | wc -l"); got != "k3s version v1.36.4+k3s1 (standin)\n2" {
		s.t.Errorf("on agent-1: %q, want the new version, and the old one gone", got)
	}
}

// failure: an error names the node and has the last lines of its unit's log.
func (s *standinCluster) failure() {
	s.t.Helper()
	s.config.Cluster.FlannelIface = "none0"
	_, err := s.up(s.config)
	for _, want := range []string{"server-node", "k3s.service ends again and again", `flannel-iface: "none0"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			s.t.Errorf("%v; want %q", err, want)
		}
	}
	s.config.Cluster.FlannelIface = "host0" // not as it was: what failed counts as never tried
	s.mustUp()
	s.events()
}

// removal: a node taken out is drained and deleted, and its machine ended.
func (s *standinCluster) removal() {
	s.t.Helper()
	s.config.Hosts = slices.DeleteFunc(s.config.Hosts, func(h HostConfig) bool { return h.Name == "agent-2" })
	s.mustUp()
	if got := s.events(); got != "drain agent-2\ndelete agent-2" {
		s.t.Errorf("taken out: %s", got)
	}
	if left, err := filepath.Glob(filepath.Join(s.stateDir, "machines", "*", "m", "agent-2", "root")); err != nil || len(left) > 0 {
		s.t.Errorf("the machine is still there: %v, %v", left, err)
	}
	// A node that is no node any more leaves nothing on its host.
	s.config.Hosts = append(s.config.Hosts[:1:1], HostConfig{Name: "agent-1", Kind: KindNspawn, Roles: []string{"monitoring"}, CPUs: 0.5, MemoryMiB: 512}, s.config.Hosts[2])
	connection := s.connection("agent-1")
	s.mustUp()
	if got := s.events(); got != "drain agent-1\ndelete agent-1" {
		s.t.Errorf("agent-1 became another host: %s", got)
	}
	if out, err := remotely(connection, "ls -d /etc/rancher/k3s /var/lib/rancher/k3s /usr/local/lib/lab/cluster /etc/systemd/system/k3s-agent.service /usr/local/bin/k3s 2>/dev/null; systemctl is-active k3s-agent || true", ""); strings.TrimSpace(out) != "inactive" {
		s.t.Errorf("left on agent-1: %q, %v", out, err)
	}
}

// destroyed: a destroy asks nothing of the cluster or of a host that is off.
func (s *standinCluster) destroyed() {
	s.t.Helper()
	s.on("server", "systemctl stop k3s")
	s.seen, s.ran = map[string]bool{}, nil
	if err := s.deleteRest(); err != nil || len(s.ran) > 0 {
		s.t.Errorf("destroy: %v; it ran %v on the hosts", err, s.ran)
	}
}
