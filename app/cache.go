package main

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	generationKey = "catalogue:generation"
	queueKey      = "jobs"
	processingKey = "jobs:processing"
)

func openRedis(c config) (*redis.Client, error) {
	options, err := redis.ParseURL(c.redisURL)
	if err != nil {
		return nil, errors.New("REDIS_URL: not a redis:// URL")
	}
	return redis.NewClient(options), nil
}

// cache keeps answers for anonymous readers. Every key holds a generation, which
// any committed write moves on: no enumeration of keys, no stale read after it.
type cache struct {
	client *redis.Client
	ttl    time.Duration
}

// anonymous says whether a request's answer may be shared.
func anonymous(r *http.Request) bool {
	return r.Header.Get("Authorization") == "" && r.Header.Get("Cookie") == ""
}

// get returns the cached answer, or the key under which to put it.
func (c cache) get(ctx context.Context, name string) (answer []byte, key string) {
	generation, err := c.client.Get(ctx, generationKey).Int64()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, "" // without Redis the reads come from the database
	}
	key = "answer:" + strconv.FormatInt(generation, 10) + ":" + name
	answer, err = c.client.Get(ctx, key).Bytes()
	if err != nil {
		return nil, key
	}
	return answer, key
}

func (c cache) put(ctx context.Context, key string, answer []byte) {
	if key != "" {
		_ = c.client.Set(ctx, key, answer, c.ttl).Err() // a lost entry is a miss
	}
}

func (c cache) invalidate(ctx context.Context) error {
	return c.client.Incr(ctx, generationKey).Err()
}
