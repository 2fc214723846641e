// Package workloads declares what runs on the lab: the demo workload with the
// knobs of the published write-ups, or on a cluster any chart in its place.
package workloads

import (
	"fmt"
	"strconv"
	"strings"

	"lab/config"
)

// Config is the section lab:workloads.
type Config struct {
	ConnMaxAgeSeconds   int     `json:"connMaxAgeSeconds"`   // 0: a new database connection for every request
	QueryShape          string  `json:"queryShape"`          // join (and group) or (correlated) subquery
	CacheSeconds        int     `json:"cacheSeconds"`        // 0: no read cache
	PoolSize            int     `json:"poolSize"`            // database connections at most, of each web process
	ThrottleRPS         float64 `json:"throttleRps"`         // of each web process; 0: no throttle
	WorkIterationsPerMs int     `json:"workIterationsPerMs"` // of /work; fixed, so that the work is the same in every row

	// On a cluster.
	Namespace   string      `json:"namespace"`
	NodePort    int         `json:"nodePort"`    // of every node, where the edge sends
	PodSecurity string      `json:"podSecurity"` // level that the namespace enforces
	Web         PodsConfig  `json:"web"`
	Worker      PodsConfig  `json:"worker"`
	Chart       ChartConfig `json:"chart"` // in place of the demo workload's
}

// Lab is what the rest of the configuration gives the workload to fit in.
type Lab struct {
	MaxConnections int    // of the database
	Cluster        bool   // there is one
	Subnet         string // of the machines, a prefix
	NodeCPUMilli   int    // cap of the smallest node, in thousandths of a CPU; 0: nodes have none
	Folder         string // of the project, from which a chart's path is; "": charts are not looked at
}

// Defaults is the configuration that a stack's own is laid over.
func Defaults() Config {
	return Config{
		QueryShape: "join", PoolSize: 20, WorkIterationsPerMs: 12000,
		Namespace: "lab", NodePort: 30080, PodSecurity: "restricted",
		Web:    PodsConfig{MinReplicas: 2, MaxReplicas: 6, TargetCPURatio: 0.6, RequestCPUMilli: 100, LimitCPUMilli: 500, MemoryMiB: 128},
		Worker: PodsConfig{MinReplicas: 1, MaxReplicas: 3, TargetCPURatio: 0.7, RequestCPUMilli: 50, LimitCPUMilli: 250, MemoryMiB: 64},
	}
}

// reservedConnections are what the pool must leave on a single machine: Postgres'
// own three for a superuser, and one each for the sampler, the worker and a
// migration.
const reservedConnections = 3 + 1 + 1 + 1

// LoadConfig reads the section, as JSON, over the defaults, and reports
// everything wrong with it.
func LoadConfig(raw []byte, lab Lab) (Config, []config.Problem) {
	c := Defaults()
	unread := config.Decode("workloads", raw, &c)
	var k config.Checker
	k.Within("workloads.connMaxAgeSeconds", c.ConnMaxAgeSeconds, 0, 86_400, "a day")
	k.OneOf("workloads.queryShape", c.QueryShape, []string{"join", "subquery"})
	k.Within("workloads.cacheSeconds", c.CacheSeconds, 0, 86_400, "a day")
	k.Add(c.PoolSize >= 1, "workloads.poolSize", c.PoolSize, "is below 1", "raise it")
	k.Add(c.PoolSize <= lab.MaxConnections-reservedConnections, "workloads.poolSize", c.PoolSize,
		fmt.Sprintf("is above infra.postgres.maxConnections (%d) less %d in reserve", lab.MaxConnections, reservedConnections), "lower it, or raise maxConnections")
	k.Add(c.ThrottleRPS >= 0, "workloads.throttleRps", c.ThrottleRPS, "is below 0", "set 0 for none")
	k.Within("workloads.workIterationsPerMs", c.WorkIterationsPerMs, 1, 10_000_000, "hashes a millisecond")
	c.checkCluster(&k, lab)
	return c, config.Merge(unread, k.Problems)
}

// setting is one of the environment of the demo workload.
type setting struct{ name, value string }

// settings are all of it but the secret ones.
func (c Config) settings(port int) []setting {
	return []setting{
		{"LISTEN", ":" + strconv.Itoa(port)},
		{"CONN_MAX_AGE_SECONDS", strconv.Itoa(c.ConnMaxAgeSeconds)},
		{"QUERY_SHAPE", c.QueryShape},
		{"CACHE_SECONDS", strconv.Itoa(c.CacheSeconds)},
		{"POOL_SIZE", strconv.Itoa(c.PoolSize)},
		{"THROTTLE_RPS", strconv.FormatFloat(c.ThrottleRPS, 'f', -1, 64)},
		{"WORK_ITERATIONS_PER_MS", strconv.Itoa(c.WorkIterationsPerMs)},
	}
}

// environment is the settings as lines of an EnvironmentFile of systemd.
func (c Config) environment(port int) string {
	var lines []string
	for _, s := range c.settings(port) {
		lines = append(lines, s.name+"="+s.value)
	}
	return strings.Join(lines, "\n")
}

// ReadyPath is what a request for the workload's readiness asks for; another chart's
// is not known.
func (c Config) ReadyPath() string {
	if c.Chart.Given() {
		return "/"
	}
	return "/readyz"
}
