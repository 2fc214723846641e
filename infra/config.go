// Package infra declares the machines of a lab and the services on them: hosts
// of any kind, then Postgres, Redis and the nginx edge, each set up by a script
// over SSH.
package infra

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"lab/config"
)

// The kinds of hosts.
const (
	KindNspawn  = "nspawn"  // a container with systemd on this computer
	KindLibvirt = "libvirt" // a virtual machine
	KindProxmox = "proxmox" // a virtual machine
	KindSSH     = "ssh"     // any Debian or Ubuntu machine, such as a Raspberry Pi
)

// The roles that the services and the load test look for.
const (
	RoleServer   = "server" // of the cluster
	RoleAgent    = "agent"  // of the cluster
	RoleApp      = "app"    // the workload while there is no cluster
	RoleDatabase = "database"
	RoleCache    = "cache"
	RoleEdge     = "edge"
	RoleLoadgen  = "loadgen"
)

var (
	kinds    = []string{KindNspawn, KindLibvirt, KindProxmox, KindSSH}
	roles    = []string{RoleServer, RoleAgent, RoleApp, RoleDatabase, "replica", RoleCache, RoleEdge, "objectstore", "monitoring", RoleLoadgen}
	archs    = []string{"amd64", "arm64"}
	policies = []string{"noeviction", "allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl"}
	nameRule = regexp.MustCompile(`^[a-z][a-z0-9-]{0,14}$`)
)

// maxHosts is what the addresses of a /24 hold, from the first host's on.
const maxHosts = 240

// Config is the section lab:infra.
type Config struct {
	Network  NetworkConfig  `json:"network"`
	Hosts    []HostConfig   `json:"hosts"`
	Cluster  ClusterConfig  `json:"cluster"`
	Postgres PostgresConfig `json:"postgres"`
	Redis    RedisConfig    `json:"redis"`
	Edge     EdgeConfig     `json:"edge"`
}

// NetworkConfig is the lab's network. Name and Loopback are of nspawn hosts.
type NetworkConfig struct {
	Name     string `json:"name"`
	Subnet   string `json:"subnet"`   // /24; of nspawn hosts: inside the network namespace
	Loopback string `json:"loopback"` // /24 of 127.0.0.0/8, by which this computer reaches its nspawn hosts
}

// HostConfig is one machine.
type HostConfig struct {
	Name      string   `json:"name"`
	Kind      string   `json:"kind"`
	Roles     []string `json:"roles"`
	CPUs      float64  `json:"cpus"` // of nspawn hosts: a cap, may be a fraction
	MemoryMiB int      `json:"memoryMiB"`
	LinkMbps  float64  `json:"linkMbps"` // 0: unknown
	Address   string   `json:"address"`  // nspawn hosts get theirs in order, from .11 on
	Arch      string   `json:"arch"`     // amd64 or arm64; nspawn hosts have this computer's

	Labels map[string]string `json:"labels,omitempty"` // of its node in the cluster
	Taints []string          `json:"taints,omitempty"` // of its node: KEY=VALUE:EFFECT
}

// PostgresConfig sets the database up. The rest comes from its host's memory.
type PostgresConfig struct {
	MaxConnections int `json:"maxConnections"`
	WorkMemMiB     int `json:"workMemMiB"`
}

// RedisConfig sets the cache up.
type RedisConfig struct {
	MaxMemoryMiB int    `json:"maxMemoryMiB"` // 0: half of its host's
	Policy       string `json:"policy"`
}

// EdgeConfig sets nginx up.
type EdgeConfig struct {
	Workers           int `json:"workers"`
	WorkerConnections int `json:"workerConnections"`
	Keepalive         int `json:"keepalive"` // idle upstream connections a worker keeps; 0: none
	BufferKiB         int `json:"bufferKiB"` // of each of 8 proxy buffers

	// Where the upstream is the nodes of a cluster.
	ConnectTimeoutMs   int `json:"connectTimeoutMs"`   // to a node, before the next one is tried
	NextUpstreamTries  int `json:"nextUpstreamTries"`  // nodes that a request is tried on, at most
	FailTimeoutSeconds int `json:"failTimeoutSeconds"` // how long a failed node is left out
}

// Defaults is the configuration that a stack's own is laid over.
func Defaults() Config {
	return Config{
		Network:  NetworkConfig{Name: "lab-local", Subnet: "10.77.0.0/24", Loopback: "127.77.0.0/24"},
		Cluster:  clusterDefaults(),
		Postgres: PostgresConfig{MaxConnections: 100, WorkMemMiB: 4},
		Redis:    RedisConfig{Policy: "volatile-lru"},
		Edge: EdgeConfig{
			Workers: 1, WorkerConnections: 4096, Keepalive: 64, BufferKiB: 16,
			ConnectTimeoutMs: 500, NextUpstreamTries: 3, FailTimeoutSeconds: 10,
		},
	}
}

// Kind is the kind of the hosts, which all have one.
func (c Config) Kind() string { return c.Hosts[0].Kind }

func (c Config) notAvailable() error {
	return fmt.Errorf("bring up hosts of kind %s: not available yet, nothing was touched; `pulumi preview` checks this stack, and the stack local brings up hosts of kind %s", c.Kind(), KindNspawn)
}

// HasRole tells whether any host holds the role.
func (c Config) HasRole(role string) bool {
	return slices.ContainsFunc(c.Hosts, func(h HostConfig) bool { return slices.Contains(h.Roles, role) })
}

// HasCluster tells whether the workload runs on a cluster, and not on the host
// with the role app.
func (c Config) HasCluster() bool { return c.Cluster.enabled() }

// Generators is how many hosts share the load.
func (c Config) Generators() int {
	n := 0
	for _, h := range c.Hosts {
		if slices.Contains(h.Roles, RoleLoadgen) {
			n++
		}
	}
	return n
}

// LoadConfig reads the section, as JSON, over the defaults, and reports
// everything wrong with it.
func LoadConfig(raw []byte) (Config, []config.Problem) {
	c := Defaults()
	unread := config.Decode("infra", raw, &c)
	for i := range c.Hosts {
		if h := &c.Hosts[i]; h.Kind != KindNspawn && h.Arch == "" {
			h.Arch = "amd64"
		}
	}
	return c, config.Merge(unread, c.problems())
}

func (c Config) problems() []config.Problem {
	var k config.Checker
	c.Network.check(&k)
	k.Add(len(c.Hosts) > 0, "infra.hosts", 0, "hosts are too few", "declare a host for each role")
	k.Add(len(c.Hosts) <= maxHosts, "infra.hosts", len(c.Hosts), fmt.Sprintf("hosts are above %d (the addresses of a /24)", maxHosts), "declare fewer")
	for i, h := range c.Hosts {
		h.check(&k, hostPath(i))
	}
	if len(c.Hosts) > 0 {
		c.checkTogether(&k)
		c.checkRoles(&k)
		c.checkCluster(&k)
	}
	c.checkServices(&k)
	return k.Problems
}

func hostPath(i int) string { return fmt.Sprintf("infra.hosts[%d]", i) }

func (n NetworkConfig) check(k *config.Checker) {
	k.Add(nameRule.MatchString(n.Name), "infra.network.name", n.Name, "is not 1 to 15 of a-z, 0-9 and -, beginning with a letter", "rename it")
	subnet, err := netip.ParsePrefix(n.Subnet)
	k.Add(err == nil && subnet.Addr().Is4() && subnet.Bits() == 24 && subnet.Masked() == subnet && !subnet.Addr().IsLoopback(),
		"infra.network.subnet", n.Subnet, "is not the first address of an IPv4 /24", "write one like 10.77.0.0/24")
	loopback, err := netip.ParsePrefix(n.Loopback)
	k.Add(err == nil && loopback.Addr().Is4() && loopback.Bits() == 24 && loopback.Masked() == loopback && loopback.Addr().IsLoopback(),
		"infra.network.loopback", n.Loopback, "is not the first address of a /24 of 127.0.0.0/8", "write one like 127.77.0.0/24")
}

func (h HostConfig) check(k *config.Checker, path string) {
	k.Add(nameRule.MatchString(h.Name), path+".name", h.Name, "is not 1 to 15 of a-z, 0-9 and -, beginning with a letter", "rename it")
	k.OneOf(path+".kind", h.Kind, kinds)
	k.Add(len(h.Roles) > 0, path+".roles", h.Roles, "is empty", "give it one or more of "+strings.Join(roles, ", "))
	for i, r := range h.Roles {
		at := fmt.Sprintf("%s.roles[%d]", path, i)
		k.OneOf(at, r, roles)
		k.Add(slices.Index(h.Roles, r) == i, at, r, "is there twice", "remove one")
	}
	k.Add(h.CPUs >= 0.05, path+".cpus", h.CPUs, "is below 0.05 (a slower machine answers no SSH)", "raise it")
	k.Add(h.CPUs <= 256, path+".cpus", h.CPUs, "is above 256", "lower it")
	if slices.Contains(h.Roles, RoleServer) {
		k.Add(h.MemoryMiB >= 1024, path+".memoryMiB", h.MemoryMiB, "is below 1024 (k3s server minimum)", "raise it")
	} else {
		k.Add(h.MemoryMiB >= 128, path+".memoryMiB", h.MemoryMiB, "is below 128 (systemd with one service)", "raise it")
	}
	k.Add(h.LinkMbps >= 0, path+".linkMbps", h.LinkMbps, "is below 0", "write the link's speed, or 0 when it is unknown,")
	switch {
	case !slices.Contains(kinds, h.Kind):
		return // what else it wants is not known
	case h.Kind == KindNspawn:
		k.Add(h.Address == "", path+".address", h.Address, "is given, but an nspawn host gets its own", "remove it")
		k.Add(h.Arch == "", path+".arch", h.Arch, "is given, but an nspawn host has this computer's", "remove it")
		return
	}
	addr, err := netip.ParseAddr(h.Address)
	k.Add(err == nil && addr.Is4(), path+".address", h.Address, "is not an IPv4 address", "write the host's address")
	k.OneOf(path+".arch", h.Arch, archs)
	k.Add(h.CPUs == float64(int(h.CPUs)), path+".cpus", h.CPUs, "is not whole (only an nspawn host takes a part of a CPU)", "write the machine's CPUs")
}

// checkTogether compares the hosts with each other.
func (c Config) checkTogether(k *config.Checker) {
	names, addresses := map[string]int{}, map[string]int{}
	for i, h := range c.Hosts {
		if first, ok := names[h.Name]; ok {
			k.Add(false, hostPath(i)+".name", h.Name, "is the name of "+hostPath(first)+" too", "rename one")
		} else {
			names[h.Name] = i
		}
		if first, ok := addresses[h.Address]; ok && h.Address != "" {
			k.Add(false, hostPath(i)+".address", h.Address, "is the address of "+hostPath(first)+" too", "correct one")
		} else {
			addresses[h.Address] = i
		}
		known := slices.Contains(kinds, h.Kind) && slices.Contains(kinds, c.Kind())
		k.Add(h.Kind == c.Kind() || !known, hostPath(i)+".kind", h.Kind, "differs from the kind of "+hostPath(0), "give all hosts of a stack one kind")
	}
}

// checkRoles checks that each service has its host.
func (c Config) checkRoles(k *config.Checker) {
	holders := map[string]int{}
	for _, h := range c.Hosts {
		for _, r := range roles {
			if slices.Contains(h.Roles, r) {
				holders[r]++
			}
		}
	}
	for _, r := range []string{RoleApp, RoleDatabase, RoleCache, RoleEdge} {
		if r == RoleApp && holders[RoleServer]+holders[RoleAgent] > 0 { // checkClusterRoles asks for it where it must be
			k.Add(holders[r] <= 1, "infra.hosts", holders[r], "hosts have the role "+r+", which no more than one may have", "give it to one host, or to none")
			continue
		}
		k.Add(holders[r] == 1, "infra.hosts", holders[r], "hosts have the role "+r+", which exactly one has to have", "give it to one host")
	}
	k.Add(holders[RoleLoadgen] > 0, "infra.hosts", 0, "hosts have the role "+RoleLoadgen+", which at least one has to have", "give it to one host, or to several that share the load,")
	k.Add(holders[RoleServer] == 0 || holders[RoleServer]%2 == 1, "infra.hosts", holders[RoleServer], "hosts have the role server (an even number of servers survives no more than one fewer)", "make their number odd")
}

func (c Config) checkServices(k *config.Checker) {
	k.Within("infra.postgres.maxConnections", c.Postgres.MaxConnections, 10, 10_000, "a pool and the administrator fit in")
	k.Within("infra.postgres.workMemMiB", c.Postgres.WorkMemMiB, 1, 4096, "each sort takes it")
	k.Add(c.Redis.MaxMemoryMiB >= 0, "infra.redis.maxMemoryMiB", c.Redis.MaxMemoryMiB, "is below 0", "write a size, or 0 for half of the host's memory,")
	for i, h := range c.Hosts {
		if slices.Contains(h.Roles, RoleCache) {
			k.Add(c.Redis.MaxMemoryMiB*10 <= h.MemoryMiB*8, "infra.redis.maxMemoryMiB", c.Redis.MaxMemoryMiB, fmt.Sprintf("is above 80 %% of %s.memoryMiB, %d", hostPath(i), h.MemoryMiB), "lower it")
		}
	}
	k.OneOf("infra.redis.policy", c.Redis.Policy, policies)
	k.Within("infra.edge.workers", c.Edge.Workers, 1, 64, "processes of nginx")
	k.Within("infra.edge.workerConnections", c.Edge.WorkerConnections, 64, 65_536, "two for each request in flight")
	k.Within("infra.edge.keepalive", c.Edge.Keepalive, 0, 10_000, "0 for none")
	k.Within("infra.edge.bufferKiB", c.Edge.BufferKiB, 4, 1024, "8 for each request in flight")
	k.Within("infra.edge.connectTimeoutMs", c.Edge.ConnectTimeoutMs, 10, 60_000, "a minute is nginx' own")
	k.Within("infra.edge.nextUpstreamTries", c.Edge.NextUpstreamTries, 1, 10, "1: no other node is tried")
	k.Within("infra.edge.failTimeoutSeconds", c.Edge.FailTimeoutSeconds, 1, 3600, "then one request asks the node again")
}
