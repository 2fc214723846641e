package infra

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"lab/config"
	"lab/infra/k3s"
)

// The distributions of Kubernetes.
const (
	DistributionNone    = "none"
	DistributionLabkube = "labkube" // built here, for where k3s can't be had
	DistributionK3s     = "k3s"
)

var (
	distributions  = []string{DistributionNone, DistributionLabkube, DistributionK3s}
	flannels       = []string{"vxlan", "host-gw", "wireguard-native"}
	clusterParts   = []string{"coredns", "servicelb", "traefik", "local-storage", "metrics-server"}
	labelKeyRule   = regexp.MustCompile(`^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
	labelValueRule = regexp.MustCompile(`^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$`)
	taintRule      = regexp.MustCompile(`^[^=:]+(=[^=:]*)?:(NoSchedule|PreferNoSchedule|NoExecute)$`)
	domainRule     = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+$`)
	ifaceRule      = regexp.MustCompile(`^[A-Za-z0-9._-]{0,15}$`)
)

// ClusterConfig is Kubernetes on the hosts of the roles server and agent.
type ClusterConfig struct {
	Distribution string            `json:"distribution"`
	Version      string            `json:"version"` // of k3s: v1.36.4+k3s1
	Path         string            `json:"path"`    // of k3s on this computer; {arch}, {version}, {file} are filled in
	URL          string            `json:"url"`     // of k3s, where Path is empty; the same are filled in
	SHA256       map[string]string `json:"sha256"`  // of k3s, by architecture
	Images       ImagesConfig      `json:"images"`

	ClusterCIDR   string   `json:"clusterCidr"` // of pods
	ServiceCIDR   string   `json:"serviceCidr"`
	ClusterDNS    string   `json:"clusterDns"`
	ClusterDomain string   `json:"clusterDomain"`
	Nameservers   []string `json:"nameservers"` // that the nodes and the cluster's DNS ask; none: the host's own
	TLSSANs       []string `json:"tlsSans"`     // further names of the API server

	FlannelBackend    string `json:"flannelBackend"`
	FlannelIface      string `json:"flannelIface"` // "": the one that has the host's address
	SecretsEncryption bool   `json:"secretsEncryption"`
	ServerPods        bool   `json:"serverPods"` // whether servers run pods of the workload

	Disable      []string        `json:"disable"` // parts that k3s would bring
	Traefik      bool            `json:"traefik"` // of k3s: it is between the edge and the workload
	DrainSeconds int             `json:"drainSeconds"`
	Kubelet      KubeletSettings `json:"kubelet"`
}

// ImagesConfig is the archive of images for k3s nodes that reach no registry.
type ImagesConfig struct {
	Path   string            `json:"path"` // on this computer; {arch} and {version} are filled in
	SHA256 map[string]string `json:"sha256"`
}

// KubeletSettings are a node's.
type KubeletSettings struct {
	SystemCPUMilli          int  `json:"systemCpuMilli"` // kept from pods, for the machine
	SystemMemoryMiB         int  `json:"systemMemoryMiB"`
	KubeCPUMilli            int  `json:"kubeCpuMilli"` // kept from pods, for Kubernetes' own parts
	KubeMemoryMiB           int  `json:"kubeMemoryMiB"`
	EvictionMemoryMiB       int  `json:"evictionMemoryMiB"` // below, pods are evicted
	FailSwapOn              bool `json:"failSwapOn"`
	ShutdownSeconds         int  `json:"shutdownSeconds"`         // for pods to end when the machine does
	ShutdownCriticalSeconds int  `json:"shutdownCriticalSeconds"` // of these, for critical pods
	MaxPods                 int  `json:"maxPods"`
}

func clusterDefaults() ClusterConfig {
	return ClusterConfig{
		Distribution: DistributionNone,
		ClusterCIDR:  "10.42.0.0/16", ServiceCIDR: "10.43.0.0/16", ClusterDNS: "10.43.0.10", ClusterDomain: "cluster.local",
		FlannelBackend: "vxlan", SecretsEncryption: true, ServerPods: true,
		Disable: []string{"servicelb", "traefik"}, DrainSeconds: 120,
		Kubelet: KubeletSettings{
			SystemCPUMilli: 50, SystemMemoryMiB: 64, KubeCPUMilli: 50, KubeMemoryMiB: 128,
			EvictionMemoryMiB: 64, ShutdownSeconds: 30, ShutdownCriticalSeconds: 10, MaxPods: 110,
		},
	}
}

// enabled tells whether there is a cluster.
func (c ClusterConfig) enabled() bool { return c.Distribution != DistributionNone }

// url is where k3s comes from when it is no file of this computer.
func (c ClusterConfig) url() string {
	if c.URL == "" && c.Path == "" {
		return k3s.Releases + "/{file}"
	}
	return c.URL
}

// arch is the host's architecture: an nspawn host has this computer's.
func (h HostConfig) arch() string {
	if h.Kind == KindNspawn {
		return runtime.GOARCH
	}
	return h.Arch
}

// inCluster are the indices of the hosts with a role of the cluster, servers
// first: the order in which they are set up.
func (c Config) inCluster() []int {
	var servers, agents []int
	for i, h := range c.Hosts {
		switch {
		case slices.Contains(h.Roles, RoleServer):
			servers = append(servers, i)
		case slices.Contains(h.Roles, RoleAgent):
			agents = append(agents, i)
		}
	}
	return append(servers, agents...)
}

// SmallestNodeCPUMilli is the smallest cap of the nodes that run pods, in thousandths
// of a CPU; 0 when there is no cluster or its nodes are whole machines.
func (c Config) SmallestNodeCPUMilli() int {
	smallest := 0
	if !c.Cluster.enabled() {
		return smallest
	}
	for i, n := range c.nodes(func(int) (string, string) { return "", "" }) {
		h := c.Hosts[c.inCluster()[i]]
		if milli := int(h.CPUs * 1000); n.pods && h.Kind == KindNspawn && (smallest == 0 || milli < smallest) {
			smallest = milli
		}
	}
	return smallest
}

// unpinned is an error when k3s or its images would come to a host without a sum
// to check them by. A preview does without.
func (c Config) unpinned(stack string) error {
	if c.Cluster.Distribution != DistributionK3s {
		return nil
	}
	for _, i := range c.inCluster() {
		arch := c.Hosts[i].arch()
		if c.Cluster.SHA256[arch] == "" {
			return fmt.Errorf("install k3s on %s: infra.cluster.sha256.%s is not set, nothing was touched; run lab pin k3s %s --stack %s", c.Hosts[i].Name, arch, c.Cluster.Version, stack)
		}
		if c.Cluster.Images.Path != "" && c.Cluster.Images.SHA256[arch] == "" {
			return fmt.Errorf("give images to %s: infra.cluster.images.sha256.%s is not set, nothing was touched; run lab pin k3s %s --stack %s", c.Hosts[i].Name, arch, c.Cluster.Version, stack)
		}
	}
	return nil
}

// checkCluster checks the section cluster, and the hosts against it.
func (c Config) checkCluster(k *config.Checker) {
	const path = "infra.cluster"
	cl := c.Cluster
	k.OneOf(path+".distribution", cl.Distribution, distributions)
	c.checkClusterRoles(k)
	for i, h := range c.Hosts {
		h.checkNode(k, hostPath(i))
	}
	switch cl.Distribution {
	case DistributionK3s:
		cl.checkK3s(k)
	case DistributionLabkube:
		cl.checkLabkube(k)
	default:
		return
	}
	c.checkRanges(k)
	cl.check(k)
	cl.Kubelet.check(k)
	for _, i := range c.inCluster() {
		kept := cl.Kubelet.SystemMemoryMiB + cl.Kubelet.KubeMemoryMiB + cl.Kubelet.EvictionMemoryMiB
		k.Add(kept < c.Hosts[i].MemoryMiB, path+".kubelet", kept, fmt.Sprintf("MiB are kept from pods (systemMemoryMiB + kubeMemoryMiB + evictionMemoryMiB), not below %s.memoryMiB, %d", hostPath(i), c.Hosts[i].MemoryMiB), "keep less")
	}
}

// checkClusterRoles compares the hosts' roles with the distribution.
func (c Config) checkClusterRoles(k *config.Checker) {
	servers, agents := 0, 0
	for i, h := range c.Hosts {
		server, agent := slices.Contains(h.Roles, RoleServer), slices.Contains(h.Roles, RoleAgent)
		k.Add(!server || !agent, hostPath(i)+".roles", h.Roles, "has both server and agent", "keep server, which is a node too")
		switch {
		case server:
			servers++
		case agent:
			agents++
		}
	}
	// With a host for the workload beside them, such hosts idle: a lab with and
	// without its cluster differs in this one line.
	k.Add(c.Cluster.Distribution != DistributionNone || servers+agents == 0 || c.HasRole(RoleApp), "infra.cluster.distribution", c.Cluster.Distribution,
		fmt.Sprintf("is no cluster, but %d hosts have the role server or agent, and none the role app", servers+agents), "use k3s or labkube, or give the role app to a host,")
	k.Add(c.Cluster.Distribution == DistributionNone || servers > 0, "infra.hosts", 0, "hosts have the role server, which a cluster needs", "give it to a host")
	k.Add(c.Cluster.Distribution != DistributionLabkube || servers <= 1, "infra.hosts", servers, "hosts have the role server (labkube has one server)", "keep one, or use k3s,")
}

// checkNode checks what a host says of its node.
func (h HostConfig) checkNode(k *config.Checker, path string) {
	node := slices.Contains(h.Roles, RoleServer) || slices.Contains(h.Roles, RoleAgent)
	k.Add(node || len(h.Labels) == 0, path+".labels", len(h.Labels), "labels are given, but the host is no node of a cluster", "remove them, or give it the role agent,")
	k.Add(node || len(h.Taints) == 0, path+".taints", len(h.Taints), "taints are given, but the host is no node of a cluster", "remove them, or give it the role agent,")
	for _, key := range slices.Sorted(maps.Keys(h.Labels)) {
		k.Add(labelKeyRule.MatchString(key), path+".labels", key, "is no name of a label", "write one like disk or example.org/disk")
		k.Add(labelValueRule.MatchString(h.Labels[key]), path+".labels."+key, h.Labels[key], "is no value of a label (63 of A-Z, a-z, 0-9, -, _ and .)", "correct it")
	}
	for i, taint := range h.Taints {
		key, _, _ := strings.Cut(strings.SplitN(taint, ":", 2)[0], "=")
		k.Add(taintRule.MatchString(taint) && labelKeyRule.MatchString(key), fmt.Sprintf("%s.taints[%d]", path, i), taint, "is no taint", "write one like dedicated=database:NoSchedule")
	}
}

func (c ClusterConfig) checkK3s(k *config.Checker) {
	const path = "infra.cluster"
	v, err := k3s.ParseVersion(c.Version)
	k.Add(err == nil, path+".version", c.Version, "is no version of k3s", "pin one such as v1.36.4+k3s1")
	k.Add(err != nil || v.Major == 1 && v.Minor >= 32, path+".version", c.Version, "is below v1.32 (its kubelet reads no drop-ins)", "raise it")
	k.Add(c.Path == "" || c.URL == "", path, fmt.Sprintf("path %q and url %q", c.Path, c.URL), "are both set", "keep path, of a file on this computer, or url")
	k.Add(c.URL == "" || strings.HasPrefix(c.URL, "https://"), path+".url", c.URL, "is not https", "use an address that begins with https://")
	checkSums(k, path+".sha256", c.SHA256)
	checkSums(k, path+".images.sha256", c.Images.SHA256)
	k.Add(!c.Traefik || !slices.Contains(c.Disable, "traefik"), path+".disable", strings.Join(c.Disable, ", "), "holds traefik, which traefik: true wants", "leave it out")
	k.Add(c.Images.Path != "" || len(c.Images.SHA256) == 0, path+".images.sha256", len(c.Images.SHA256), "sums are given, but images.path is empty", "name the archive, or remove them,")
}

// checkLabkube wants none of what says where k3s comes from.
func (c ClusterConfig) checkLabkube(k *config.Checker) {
	for _, row := range []struct {
		key string
		set bool
	}{
		{"version", c.Version != ""}, {"path", c.Path != ""}, {"url", c.URL != ""},
		{"sha256", len(c.SHA256) > 0}, {"images", c.Images.Path != "" || len(c.Images.SHA256) > 0},
		{"traefik", c.Traefik},
	} {
		k.Add(!row.set, "infra.cluster."+row.key, "the key", "is of k3s, but distribution is labkube, which is built here", "remove it")
	}
}

func checkSums(k *config.Checker, path string, sums map[string]string) {
	for _, arch := range slices.Sorted(maps.Keys(sums)) {
		k.OneOf(path, arch, k3s.Archs)
		k.Add(k3s.IsSum(sums[arch]), path+"."+arch, sums[arch], "is not 64 of 0-9 and a-f", "run lab pin k3s VERSION, or copy the sum that sha256sum prints,")
	}
}

// checkRanges checks the addresses of pods and Services.
func (c Config) checkRanges(k *config.Checker) {
	const path = "infra.cluster"
	ranges := map[string]netip.Prefix{}
	for _, r := range []struct{ key, text string }{{path + ".clusterCidr", c.Cluster.ClusterCIDR}, {path + ".serviceCidr", c.Cluster.ServiceCIDR}} {
		p, err := netip.ParsePrefix(r.text)
		ok := err == nil && p.Addr().Is4() && p.Masked() == p && !p.Addr().IsLoopback()
		k.Add(ok, r.key, r.text, "is not the first address of an IPv4 range", "write one like 10.42.0.0/16")
		if ok {
			ranges[r.key] = p
		}
	}
	pods, hasPods := ranges[path+".clusterCidr"]
	services, hasServices := ranges[path+".serviceCidr"]
	if subnet, err := netip.ParsePrefix(c.Network.Subnet); err == nil {
		k.Add(!hasPods || !pods.Overlaps(subnet), path+".clusterCidr", c.Cluster.ClusterCIDR, "overlaps infra.network.subnet, "+c.Network.Subnet, "take another range")
		k.Add(!hasServices || !services.Overlaps(subnet), path+".serviceCidr", c.Cluster.ServiceCIDR, "overlaps infra.network.subnet, "+c.Network.Subnet, "take another range")
	}
	k.Add(!hasPods || !hasServices || !pods.Overlaps(services), path+".serviceCidr", c.Cluster.ServiceCIDR, "overlaps clusterCidr, "+c.Cluster.ClusterCIDR, "take another range")
	nodes := len(c.inCluster())
	k.Add(!hasPods || pods.Bits() <= 24 && 1<<(24-pods.Bits()) >= nodes, path+".clusterCidr", c.Cluster.ClusterCIDR, fmt.Sprintf("has no /24 for each of %d nodes", nodes), "take a larger range, such as a /16,")
	dns, err := netip.ParseAddr(c.Cluster.ClusterDNS)
	k.Add(err == nil && (!hasServices || services.Contains(dns)), path+".clusterDns", c.Cluster.ClusterDNS, "is no address of serviceCidr, "+c.Cluster.ServiceCIDR, "write one like 10.43.0.10")
}

func (c ClusterConfig) check(k *config.Checker) {
	const path = "infra.cluster"
	k.Add(domainRule.MatchString(c.ClusterDomain), path+".clusterDomain", c.ClusterDomain, "is no domain", "write one like cluster.local")
	for i, n := range c.Nameservers {
		addr, err := netip.ParseAddr(n)
		k.Add(err == nil && !addr.IsLoopback(), fmt.Sprintf("%s.nameservers[%d]", path, i), n, "is no address that pods can ask", "write a name server's address, not a loopback one,")
	}
	k.Add(len(c.Nameservers) <= 3, path+".nameservers", len(c.Nameservers), "name servers are above 3 (what a resolver reads)", "keep three")
	for i, name := range c.TLSSANs {
		_, err := netip.ParseAddr(name)
		k.Add(err == nil || domainRule.MatchString(name) || nameRule.MatchString(name), fmt.Sprintf("%s.tlsSans[%d]", path, i), name, "is no name or address", "correct it")
	}
	k.OneOf(path+".flannelBackend", c.FlannelBackend, flannels)
	k.Add(ifaceRule.MatchString(c.FlannelIface), path+".flannelIface", c.FlannelIface, "is no name of an interface", "write one like eth0, or leave it out")
	for i, part := range c.Disable {
		k.OneOf(fmt.Sprintf("%s.disable[%d]", path, i), part, clusterParts)
		k.Add(slices.Index(c.Disable, part) == i, fmt.Sprintf("%s.disable[%d]", path, i), part, "is there twice", "remove one")
	}
	k.Within(path+".drainSeconds", c.DrainSeconds, 10, 3600, "pods end within it before their node is upgraded or removed")
}

func (s KubeletSettings) check(k *config.Checker) {
	const path = "infra.cluster.kubelet"
	k.Within(path+".systemCpuMilli", s.SystemCPUMilli, 0, 64_000, "kept from pods")
	k.Within(path+".systemMemoryMiB", s.SystemMemoryMiB, 0, 65_536, "kept from pods")
	k.Within(path+".kubeCpuMilli", s.KubeCPUMilli, 0, 64_000, "kept from pods")
	k.Within(path+".kubeMemoryMiB", s.KubeMemoryMiB, 0, 65_536, "kept from pods")
	k.Within(path+".evictionMemoryMiB", s.EvictionMemoryMiB, 1, 65_536, "with none the kernel chooses whom to kill")
	k.Within(path+".shutdownSeconds", s.ShutdownSeconds, 2, 3600, "without it pods end like in a power cut")
	k.Within(path+".shutdownCriticalSeconds", s.ShutdownCriticalSeconds, 1, 3600, "with 0 the kubelet turns graceful shutdown off")
	k.Add(s.ShutdownCriticalSeconds < s.ShutdownSeconds, path+".shutdownCriticalSeconds", s.ShutdownCriticalSeconds, fmt.Sprintf("is not below shutdownSeconds, %d, of which it is a part", s.ShutdownSeconds), "lower it")
	k.Within(path+".maxPods", s.MaxPods, 10, 250, "a node's /24 holds no more")
}
