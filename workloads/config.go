// Package workloads declares what runs on the lab: the demo workload with the
// knobs of the published write-ups.
package workloads

import (
	"fmt"
	"strconv"

	"lab/config"
)

// Config is the section lab:workloads.
type Config struct {
	ConnMaxAgeSeconds   int     `json:"connMaxAgeSeconds"`   // 0: a new database connection for every request
	QueryShape          string  `json:"queryShape"`          // join (and group) or (correlated) subquery
	CacheSeconds        int     `json:"cacheSeconds"`        // 0: no read cache
	PoolSize            int     `json:"poolSize"`            // database connections at most
	ThrottleRPS         float64 `json:"throttleRps"`         // 0: no throttle
	WorkIterationsPerMs int     `json:"workIterationsPerMs"` // of /work; fixed, so that the work is the same in every row
}

// Defaults is the configuration that a stack's own is laid over.
func Defaults() Config {
	return Config{QueryShape: "join", PoolSize: 20, WorkIterationsPerMs: 12000}
}

// reservedConnections are what the pool must leave: Postgres' own three for a
// superuser, and one each for the sampler, the worker and a migration.
const reservedConnections = 3 + 1 + 1 + 1

// LoadConfig reads the section, as JSON, over the defaults, and reports
// everything wrong with it. maxConnections is the database's limit, which the
// pool must fit in.
func LoadConfig(raw []byte, maxConnections int) (Config, []config.Problem) {
	c := Defaults()
	unread := config.Decode("workloads", raw, &c)
	var k config.Checker
	k.Within("workloads.connMaxAgeSeconds", c.ConnMaxAgeSeconds, 0, 86_400, "a day")
	k.OneOf("workloads.queryShape", c.QueryShape, []string{"join", "subquery"})
	k.Within("workloads.cacheSeconds", c.CacheSeconds, 0, 86_400, "a day")
	k.Add(c.PoolSize >= 1, "workloads.poolSize", c.PoolSize, "is below 1", "raise it")
	k.Add(c.PoolSize <= maxConnections-reservedConnections, "workloads.poolSize", c.PoolSize,
		fmt.Sprintf("is above infra.postgres.maxConnections (%d) less %d in reserve", maxConnections, reservedConnections), "lower it, or raise maxConnections")
	k.Add(c.ThrottleRPS >= 0, "workloads.throttleRps", c.ThrottleRPS, "is below 0", "set 0 for none")
	k.Within("workloads.workIterationsPerMs", c.WorkIterationsPerMs, 1, 10_000_000, "hashes a millisecond")
	return c, config.Merge(unread, k.Problems)
}

// environment is the workload's settings but for the secret ones, as lines of an
// EnvironmentFile of systemd.
func (c Config) environment(port int) string {
	return fmt.Sprintf("LISTEN=:%d\nCONN_MAX_AGE_SECONDS=%d\nQUERY_SHAPE=%s\nCACHE_SECONDS=%d\nPOOL_SIZE=%d\nTHROTTLE_RPS=%s\nWORK_ITERATIONS_PER_MS=%d",
		port, c.ConnMaxAgeSeconds, c.QueryShape, c.CacheSeconds, c.PoolSize, strconv.FormatFloat(c.ThrottleRPS, 'f', -1, 64), c.WorkIterationsPerMs)
}
