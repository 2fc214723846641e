package sample

import (
	"context"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"lab/loadtest/plan"
)

// redisServer asks INFO over a kept connection.
type redisServer struct{ client *redis.Client }

// silent keeps the library from logging what it returns as an error too, each
// second while a server is down.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func newRedis(s plan.Service) *redisServer {
	redis.SetLogger(silent{})
	return &redisServer{redis.NewClient(&redis.Options{
		Addr: s.Address, Password: s.Password, PoolSize: 1, MaxRetries: -1, DialerRetries: 1,
		DialTimeout: serviceTimeout, ReadTimeout: serviceTimeout, ContextTimeoutEnabled: true, DisableIdentity: true,
	})}
}

func (r *redisServer) ask(ctx context.Context) (ServiceCounters, error) {
	text, err := r.client.Info(ctx, "clients", "stats", "cpu").Result()
	if err != nil {
		return ServiceCounters{}, err
	}
	return parseInfo(text), nil
}

// parseInfo reads INFO. The client that asks is one of the connected ones, and is
// taken off. Before Redis 7 there is no CPU time of the main thread alone.
func parseInfo(text string) ServiceCounters {
	of := map[string]float64{}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), ":")
		if n, err := strconv.ParseFloat(value, 64); ok && err == nil {
			of[name] = n
		}
	}
	c := ServiceCounters{
		Connections: max(0, of["connected_clients"]-1), Limit: of["maxclients"], Refused: int64(of["rejected_connections"]),
		Hits: of["keyspace_hits"], Misses: of["keyspace_misses"],
	}
	if user, ok := of["used_cpu_user_main_thread"]; ok {
		c.Threads = map[string]float64{"main": user + of["used_cpu_sys_main_thread"]}
	}
	return c
}
