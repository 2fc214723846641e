package infra

import (
	"fmt"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"lab/golden"
)

// clusterHosts are hosts of the roles given, pi1 first.
func clusterHosts(roles ...string) (hosts []HostConfig) {
	for i, role := range roles {
		hosts = append(hosts, HostConfig{
			Name: fmt.Sprintf("pi%d", i+1), Kind: KindSSH, Roles: []string{role}, CPUs: 4, MemoryMiB: 8192, Arch: "arm64",
			Address: fmt.Sprintf("192.168.1.%d", 51+i),
		})
	}
	return hosts
}

// clusterOf is a cluster of a distribution on hosts of the roles given.
func clusterOf(distribution string, roles ...string) Config {
	c := Defaults()
	c.Cluster.Distribution, c.Hosts = distribution, clusterHosts(roles...)
	return c
}

func (c Config) nodesAtHome() []node {
	return c.nodes(func(i int) (string, string) { return c.Hosts[i].Address, c.Hosts[i].Address })
}

func TestNodesAreServersThenAgents(t *testing.T) {
	var got []string
	for _, n := range clusterOf(DistributionK3s, RoleAgent, RoleServer, RoleDatabase, RoleServer, RoleAgent, RoleServer).nodesAtHome() {
		got = append(got, fmt.Sprint(n.name, " ", n.mode, " ", n.first))
	}
	want := "pi2 server true, pi4 server false, pi6 server false, pi1 agent false, pi5 agent false"
	if strings.Join(got, ", ") != want {
		t.Errorf("%v, want %s", got, want)
	}
}

func TestRenderedNodes(t *testing.T) {
	for _, row := range []struct {
		name   string
		config Config
		change func(*ClusterConfig)
		node   int
	}{
		{"k3s-one-server", clusterOf(DistributionK3s, RoleServer, RoleAgent), nil, 0},
		{"k3s-agent", clusterOf(DistributionK3s, RoleServer, RoleAgent), nil, 1},
		{"k3s-first-of-three-servers", clusterOf(DistributionK3s, RoleServer, RoleServer, RoleServer), nil, 0},
		{"k3s-second-of-three-servers", clusterOf(DistributionK3s, RoleServer, RoleServer, RoleServer), nil, 1},
		{"k3s-server-of-other-settings", clusterOf(DistributionK3s, RoleServer), func(c *ClusterConfig) {
			c.ClusterCIDR, c.ServiceCIDR, c.ClusterDNS, c.ClusterDomain = "10.52.0.0/16", "10.53.0.0/16", "10.53.0.10", "home.arpa"
			c.TLSSANs, c.FlannelBackend, c.SecretsEncryption, c.Disable = []string{"lab.example.org", "pi1"}, "host-gw", false, nil
		}, 0},
		{"labkube-server", clusterOf(DistributionLabkube, RoleServer, RoleAgent), nil, 0},
		{"labkube-server-without-pods", clusterOf(DistributionLabkube, RoleServer, RoleAgent), func(c *ClusterConfig) { c.ServerPods = false }, 0},
		{"labkube-agent", clusterOf(DistributionLabkube, RoleServer, RoleAgent), nil, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			if row.change != nil {
				row.change(&row.config.Cluster)
			}
			all := row.config.nodesAtHome()
			got, err := nodeSettings(row.config.Cluster, all, all[row.node])
			if err != nil {
				t.Fatal(err)
			}
			golden.Check(t, "testdata/rendered/"+row.name+".yaml", got+"\n")
		})
	}
}

// What must be the same on all servers of k3s is (https://docs.k3s.io/cli/server).
func TestServersDifferInWhoTheyAreOnly(t *testing.T) {
	c := clusterOf(DistributionK3s, RoleServer, RoleServer, RoleServer)
	all := c.nodesAtHome()
	var common []string
	for _, n := range all {
		text, err := nodeSettings(c.Cluster, all, n)
		if err != nil {
			t.Fatal(err)
		}
		var same []string
		for line := range strings.Lines(text) {
			key, _, _ := strings.Cut(line, ":")
			switch key {
			case "node-name", "node-ip", "server", "cluster-init":
			default:
				same = append(same, line)
			}
		}
		common = append(common, strings.Join(same, ""))
	}
	if common[0] != common[1] || common[1] != common[2] || !strings.Contains(common[0], "secrets-encryption") {
		t.Errorf("%q", common)
	}
}

func TestRenderedUnits(t *testing.T) {
	for _, distribution := range []string{DistributionK3s, DistributionLabkube} {
		for _, mode := range []string{modeServer, modeAgent} {
			c := ClusterConfig{Distribution: distribution}
			got, err := nodeUnit(c, mode)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(got, "# Written by lab") {
				t.Error("cluster-stage.sh knows a unit of lab's by its first line")
			}
			golden.Check(t, "testdata/rendered/"+c.layout().unit(mode), got+"\n")
		}
	}
}

func TestRenderedKubelet(t *testing.T) {
	got, err := kubeletSettings(clusterDefaults().Kubelet)
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/rendered/kubelet.conf", got+"\n")
}

func TestTokens(t *testing.T) {
	hash := strings.Repeat("ab", 32)
	for _, row := range []struct{ mode, want string }{
		{modeServer, "K10" + hash + "::server:p"}, {modeAgent, "K10" + hash + "::node:p"},
	} {
		if got := joinToken(row.mode, hash, "p"); got != row.want {
			t.Errorf("%s joins with %q, want %q", row.mode, got, row.want)
		}
	}
	for _, row := range []struct {
		stdout, want string
		ok           bool
	}{
		{hash + "\n", hash, true}, {"", "", true}, {"error: no such file", "", false}, {hash + hash, "", false},
	} {
		if got, err := caHash(row.stdout); got != row.want || (err == nil) != row.ok {
			t.Errorf("%q: %q, %v", row.stdout, got, err)
		}
	}
}

func TestLabelsAndTaintsOfANode(t *testing.T) {
	c := clusterDefaults()
	h := HostConfig{Roles: []string{RoleServer}, Labels: map[string]string{"b": "2", "a": "1"}, Taints: []string{"x=y:NoExecute"}}
	if got := nodeLabels(h); got != "a=1\nb=2" {
		t.Errorf("labels %q", got)
	}
	if got := nodeTaints(c, h); got != "x=y:NoExecute" {
		t.Errorf("taints %q", got)
	}
	c.ServerPods = false
	if got := nodeTaints(c, h); got != "node-role.kubernetes.io/control-plane:NoSchedule\nx=y:NoExecute" {
		t.Errorf("taints of a server without pods %q", got)
	}
	h.Roles = []string{RoleAgent}
	if got := nodeTaints(c, h); got != "x=y:NoExecute" {
		t.Errorf("taints of an agent %q", got)
	}
}

func TestMachineCap(t *testing.T) {
	if cpu, memory := machineCap(HostConfig{Kind: KindNspawn, CPUs: 0.35, MemoryMiB: 768}); cpu != "350" || memory != "768" {
		t.Errorf("of a container: %s and %s", cpu, memory)
	}
	if cpu, memory := machineCap(HostConfig{Kind: KindSSH, CPUs: 4, MemoryMiB: 8192}); cpu != "" || memory != "" {
		t.Errorf("of a machine: %s and %s, want none", cpu, memory)
	}
}

func TestUnpinned(t *testing.T) {
	sum := strings.Repeat("a", 64)
	for _, row := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"no sum of the hosts' architecture", func(c *Config) { c.Cluster.SHA256 = map[string]string{"amd64": sum} }, "infra.cluster.sha256.arm64 is not set, nothing was touched; run lab pin k3s v1.36.4+k3s1 --stack home"},
		{"a sum", func(c *Config) { c.Cluster.SHA256 = map[string]string{"arm64": sum} }, ""},
		{"images without a sum", func(c *Config) {
			c.Cluster.SHA256, c.Cluster.Images.Path = map[string]string{"arm64": sum}, "images.tar.zst"
		}, "infra.cluster.images.sha256.arm64 is not set"},
		{"labkube, which is built here", func(c *Config) { c.Cluster.Distribution = DistributionLabkube }, ""},
		{"no cluster", func(c *Config) { c.Cluster.Distribution = DistributionNone }, ""},
	} {
		c := clusterOf(DistributionK3s, RoleServer)
		c.Cluster.Version = "v1.36.4+k3s1"
		row.change(&c)
		err := c.unpinned("home")
		if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", row.name, err, row.want)
		}
	}
}

func TestClusterDigest(t *testing.T) {
	look := func(change func(*Config)) string {
		c := clusterOf(DistributionK3s, RoleServer, RoleAgent)
		c.Cluster.SHA256 = map[string]string{"amd64": "a", "arm64": "b"}
		change(&c)
		return clusterDigest(c)
	}
	before := look(func(*Config) {})
	for name, row := range map[string]struct {
		change  func(*Config)
		changes bool
	}{
		"the version":                        {func(c *Config) { c.Cluster.Version = "v1.36.5+k3s1" }, true},
		"the binary of the hosts":            {func(c *Config) { c.Cluster.SHA256["arm64"] = "c" }, true},
		"the binary of another architecture": {func(c *Config) { c.Cluster.SHA256["amd64"] = "c" }, false},
		"what is kept from pods":             {func(c *Config) { c.Cluster.Kubelet.SystemMemoryMiB = 256 }, true},
		"the network between nodes":          {func(c *Config) { c.Cluster.FlannelBackend = "host-gw" }, true},
		"where the binary comes from":        {func(c *Config) { c.Cluster.Path = "k3s" }, false},
		"how patient a drain is":             {func(c *Config) { c.Cluster.DrainSeconds = 600 }, false},
	} {
		if got := look(row.change); (got != before) != row.changes {
			t.Errorf("%s: changed %v, want %v", name, got != before, row.changes)
		}
	}
}

// The settings of Traefik's chart are YAML within YAML: a slip would be k3s' error,
// after everything else is up.
func TestRenderedTraefik(t *testing.T) {
	c := clusterOf(DistributionK3s, RoleServer, RoleAgent)
	if got, err := traefikSettings(c); got != "" || err != nil {
		t.Errorf("without Traefik: %q, %v", got, err)
	}
	c.Cluster.Traefik = true
	got, err := traefikSettings(c)
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/rendered/k3s-traefik.yaml", got+"\n")
	var manifest struct {
		Spec struct {
			ValuesContent string `yaml:"valuesContent"`
		}
	}
	var values struct {
		HostNetwork bool `yaml:"hostNetwork"`
		Ports       map[string]struct {
			Port     int `yaml:"port"`
			HostPort int `yaml:"hostPort"`
		}
	}
	if err := yaml.Unmarshal([]byte(got), &manifest); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(manifest.Spec.ValuesContent), &values); err != nil {
		t.Fatal(err)
	}
	for name, p := range values.Ports {
		if p.Port != p.HostPort {
			t.Errorf("port %s is %d, its hostPort %d", name, p.Port, p.HostPort)
		}
	}
	if !values.HostNetwork || values.Ports["web"].Port != traefikPort {
		t.Errorf("%+v", values)
	}
}

func TestTheSmallestNodesCap(t *testing.T) {
	c := clusterStack(t, DistributionLabkube) // a server and two agents of 0.5
	c.Hosts[len(c.Hosts)-1].CPUs = 0.41
	if got := c.SmallestNodeCPUMilli(); got != 410 {
		t.Errorf("an agent of 0.41: %d", got)
	}
	c.Hosts[len(c.Hosts)-2].CPUs, c.Cluster.ServerPods = 0.2, false
	if got := c.SmallestNodeCPUMilli(); got != 410 {
		t.Errorf("a small server without pods: %d", got)
	}
	c.Cluster.Distribution = DistributionNone
	if got := c.SmallestNodeCPUMilli(); got != 0 {
		t.Errorf("no cluster: %d", got)
	}
	if got := clusterOf(DistributionK3s, RoleServer).SmallestNodeCPUMilli(); got != 0 {
		t.Errorf("whole machines: %d", got)
	}
}
