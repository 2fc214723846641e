package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

const generationKey = "catalogue:generation"

// openRedis connects at the first use. Commands are given up at their context's deadline.
func openRedis(c config) (*redis.Client, error) {
	options, err := redis.ParseURL(c.redisURL)
	if err != nil {
		return nil, errors.New("REDIS_URL: is not a URL of a Redis") // err may hold the password
	}
	options.ContextTimeoutEnabled = true
	// A Redis that is gone must cost a reader little: the database answers.
	options.DialTimeout, options.DialerRetries, options.MaxRetries = 2*time.Second, 1, 1
	redis.SetLogger(redisLog{})
	return redis.NewClient(options), nil
}

// redisLog has the client's own messages follow the log level.
type redisLog struct{}

func (redisLog) Printf(ctx context.Context, format string, args ...any) {
	slog.InfoContext(ctx, "redis client", "message", fmt.Sprintf(format, args...))
}

// cache keeps answers for anonymous readers. Every key holds a generation, which
// any committed write moves on: no enumeration of keys, no stale read after it. An
// answer is put under the generation that was read before its rows were.
//
// The generation starts at the clock's microseconds, so a lost one (a restart, an
// eviction) never comes back to a number that keys still hold.
type cache struct {
	client *redis.Client
	ttl    time.Duration // 0: off
}

// anonymous says whether a request's answer may be shared.
func anonymous(r *http.Request) bool {
	return r.Header.Get("Authorization") == "" && r.Header.Get("Cookie") == ""
}

// get returns the cached answer, or nil and the key under which to put it. Without
// Redis the key is "": reads come from the database.
func (c cache) get(ctx context.Context, path string) (answer []byte, key string) {
	generation, err := c.client.Get(ctx, generationKey).Result()
	if errors.Is(err, redis.Nil) {
		generation, err = c.start(ctx)
	}
	if err != nil {
		slog.DebugContext(ctx, "cache: read the generation", "error", err)
		return nil, ""
	}
	key = "answer:" + generation + ":" + path
	answer, err = c.client.Get(ctx, key).Bytes()
	if err != nil {
		return nil, key
	}
	return answer, key
}

func (c cache) put(ctx context.Context, key string, answer []byte) {
	if key == "" {
		return
	}
	if err := c.client.Set(ctx, key, answer, c.ttl).Err(); err != nil {
		slog.DebugContext(ctx, "cache: keep an answer", "error", err) // it will be a miss
	}
}

// start makes a generation if there is none, and returns the one there is.
func (c cache) start(ctx context.Context) (string, error) {
	if err := c.client.SetNX(ctx, generationKey, time.Now().UnixMicro(), 0).Err(); err != nil {
		return "", err
	}
	return c.client.Get(ctx, generationKey).Result()
}

var bump = redis.NewScript(`
redis.call('SET', KEYS[1], ARGV[1], 'NX')
return redis.call('INCR', KEYS[1])`)

// invalidate moves the generation on. Call it after the commit.
func (c cache) invalidate(ctx context.Context) error {
	now := strconv.FormatInt(time.Now().UnixMicro(), 10)
	if err := bump.Run(ctx, c.client, []string{generationKey}, now).Err(); err != nil {
		return fmt.Errorf("invalidate the cache: %w", err)
	}
	return nil
}
