package workloads

import (
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strings"

	"lab/config"
)

// PodsConfig sizes one part of the demo workload on a cluster. All of it is always
// set: an autoscaler needs a request, and a limit keeps the parts from each other.
type PodsConfig struct {
	MinReplicas     int     `json:"minReplicas"`
	MaxReplicas     int     `json:"maxReplicas"`     // the autoscaler's; as MinReplicas: none
	TargetCPURatio  float64 `json:"targetCpuRatio"`  // of the request, that the autoscaler aims at
	RequestCPUMilli int     `json:"requestCpuMilli"` // of a CPU, a pod
	LimitCPUMilli   int     `json:"limitCpuMilli"`
	MemoryMiB       int     `json:"memoryMiB"` // request and limit
}

// ChartConfig is another chart than the demo workload's. The zero value is none.
type ChartConfig struct {
	Path    string         `json:"path"` // folder or .tgz on this computer
	Repo    string         `json:"repo"` // https URL of a chart repository
	Name    string         `json:"name"` // in Repo
	OCI     string         `json:"oci"`  // oci://REGISTRY/…
	Version string         `json:"version"`
	Values  map[string]any `json:"values"`
	// URL is what is loaded; empty: the edge, which sends to every node's NodePort.
	URL string `json:"url"`
}

var (
	podSecurities = []string{"restricted", "baseline", "privileged"}
	labelRule     = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	chartRule     = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$`)
	versionRule   = regexp.MustCompile(`^v?[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.+-]+)?$`)
)

// Given tells whether there is another chart.
func (c ChartConfig) Given() bool {
	return c.Path != "" || c.Repo != "" || c.Name != "" || c.OCI != "" || c.Version != "" || len(c.Values) > 0 || c.URL != ""
}

// source is where the chart is from.
func (c ChartConfig) source() string {
	switch {
	case c.Path != "":
		return c.Path
	case c.OCI != "":
		return c.OCI
	}
	return strings.TrimSuffix(c.Repo, "/") + "/" + c.Name
}

func (c Config) checkCluster(k *config.Checker, lab Lab) {
	k.Add(labelRule.MatchString(c.Namespace), "workloads.namespace", c.Namespace, "is not 1 to 63 of a-z, 0-9 and -, beginning and ending with one of the first two", "rename it")
	k.Add(!strings.HasPrefix(c.Namespace, "kube-") && c.Namespace != "default", "workloads.namespace", c.Namespace, "is Kubernetes' own", "take another")
	k.Within("workloads.nodePort", c.NodePort, 30_000, 32_767, "Kubernetes' range")
	k.OneOf("workloads.podSecurity", c.PodSecurity, podSecurities)
	c.Web.check(k, "workloads.web")
	c.Worker.check(k, "workloads.worker")
	if c.Chart.Given() {
		k.Add(lab.Cluster, "workloads.chart", c.Chart.source(), "is given, but the stack has no cluster", "declare infra.cluster, or remove the chart")
		c.Chart.check(k, lab)
		return // what its pods hold of the database is not known
	}
	if lab.Cluster {
		c.checkConnections(k, lab.MaxConnections)
		c.Web.checkCap(k, "workloads.web", lab.NodeCPUMilli)
		c.Worker.checkCap(k, "workloads.worker", lab.NodeCPUMilli)
	}
}

func (p PodsConfig) check(k *config.Checker, path string) {
	k.Within(path+".minReplicas", p.MinReplicas, 1, 1000, "pods")
	k.Add(p.MaxReplicas >= p.MinReplicas, path+".maxReplicas", p.MaxReplicas, fmt.Sprintf("is below %s.minReplicas, %d", path, p.MinReplicas), "raise it")
	k.Add(p.MaxReplicas <= 1000, path+".maxReplicas", p.MaxReplicas, "is above 1000 (pods)", "lower it")
	k.Add(p.TargetCPURatio >= 0.05 && p.TargetCPURatio <= 1, path+".targetCpuRatio", p.TargetCPURatio, "is not within 0.05 to 1", "write 0.6 for 60 % of the request")
	k.Within(path+".requestCpuMilli", p.RequestCPUMilli, 10, 256_000, "thousandths of a CPU")
	k.Add(p.LimitCPUMilli >= p.RequestCPUMilli, path+".limitCpuMilli", p.LimitCPUMilli, fmt.Sprintf("is below %s.requestCpuMilli, %d", path, p.RequestCPUMilli), "raise it")
	k.Add(p.LimitCPUMilli <= 256_000, path+".limitCpuMilli", p.LimitCPUMilli, "is above 256000 (256 CPUs)", "lower it")
	k.Within(path+".memoryMiB", p.MemoryMiB, 32, 1_048_576, "the program itself takes 20")
}

// checkCap wants a limit that fits every node's cap: where control groups are of
// version 1, the kernel takes no larger one, and the container does not start.
func (p PodsConfig) checkCap(k *config.Checker, path string, milli int) {
	k.Add(milli == 0 || p.LimitCPUMilli <= milli, path+".limitCpuMilli", p.LimitCPUMilli,
		fmt.Sprintf("is above the cap of the smallest node, %d (its containers could not start there)", milli), "lower it, or raise the node's cpus in infra.hosts,")
}

func (c ChartConfig) check(k *config.Checker, lab Lab) {
	const path = "workloads.chart"
	ways := 0
	for _, way := range []string{c.Path, c.Repo, c.OCI} {
		if way != "" {
			ways++
		}
	}
	k.Add(ways == 1, path, ways, "of path, repo and oci are given, of which exactly one has to be", "give one")
	k.Add(c.Repo == "" || c.Name != "", path+".name", c.Name, "is empty, but repo is given", "write the chart's name")
	k.Add(c.Name == "" || c.Repo != "", path+".name", c.Name, "is given, but no repo", "give repo too, or remove it")
	k.Add(c.Name == "" || chartRule.MatchString(c.Name), path+".name", c.Name, "is no chart's name", "write it as the repository lists it")
	if c.Repo != "" {
		u, err := url.Parse(c.Repo)
		k.Add(err == nil && u.Scheme == "https" && u.Host != "", path+".repo", c.Repo, "is no https URL", "write one like https://charts.example.org")
	}
	k.Add(c.OCI == "" || strings.HasPrefix(c.OCI, "oci://") && len(c.OCI) > len("oci://"), path+".oci", c.OCI, "does not begin with oci://", "write one like oci://registry.example.org/charts/app")
	switch {
	case ways != 1: // whether there has to be a version follows from the way
	case c.Path == "":
		k.Add(versionRule.MatchString(c.Version), path+".version", c.Version, "is not one exact version (a range would change the lab by itself)", "write one like 1.2.3")
	default:
		k.Add(c.Version == "", path+".version", c.Version, "is given, but the chart of a path has its own", "remove it")
	}
	if c.Path != "" && lab.Folder != "" {
		if _, err := chartDigest(lab.Folder, c.Path); err != nil {
			k.Add(false, path+".path", c.Path, err.Error(), "give the path, from the project's folder, of a folder with a Chart.yaml or of a .tgz that helm packaged,")
		}
	}
	k.Add(c.URL == "" || within(c.URL, lab.Subnet), path+".url", c.URL, "is no http URL of an address of infra.network.subnet, "+lab.Subnet+" (load stays in the lab)", "write one like http://ADDRESS:PORT/, or remove it for the edge's")
}

// within tells whether a URL is of an address of the subnet.
func within(text, subnet string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" || u.User != nil {
		return false
	}
	address, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return false
	}
	lab, err := netip.ParsePrefix(subnet)
	return err == nil && lab.Contains(address)
}

const (
	// rolloutPods are those of a part beside its replicas while a roll-out is under
	// way: one that starts, and one that finishes what it has.
	rolloutPods = 2
	// workerPool is a worker's database connections: it does one job at a time.
	workerPool = 1
	// clusterReserve are Postgres' own three for a superuser, and one each for the
	// sampler and a migration.
	clusterReserve = 3 + 1 + 1
)

// connections are what the database has to hold when every autoscaler is at its
// maximum and everything rolls out.
func (c Config) connections() int {
	return (c.Web.MaxReplicas+rolloutPods)*c.PoolSize + c.otherConnections()
}

func (c Config) otherConnections() int {
	return (c.Worker.MaxReplicas+rolloutPods)*workerPool + clusterReserve
}

// checkConnections wants all of them to fit in the database: at the maximum of an
// autoscaler is when a load test can't do with refused ones.
func (c Config) checkConnections(k *config.Checker, most int) {
	pods := c.Web.MaxReplicas + rolloutPods
	fix := "lower web.maxReplicas, or raise maxConnections,"
	if fits := (most - c.otherConnections()) / max(pods, 1); fits >= 1 {
		fix = fmt.Sprintf("lower it to %d, lower web.maxReplicas, or raise maxConnections", fits)
	}
	k.Add(c.connections() <= most, "workloads.poolSize", c.PoolSize,
		fmt.Sprintf("is too much for a cluster: %d web pods (%d at the autoscaler's maximum, %d of a roll-out) × %d, %d workers and %d in reserve are %d connections, above infra.postgres.maxConnections (%d)",
			pods, c.Web.MaxReplicas, rolloutPods, c.PoolSize, (c.Worker.MaxReplicas+rolloutPods)*workerPool, clusterReserve, c.connections(), most), fix)
}
