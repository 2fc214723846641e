package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// config is the environment, read.
type config struct {
	listen         string
	databaseURL    string        // secret: never printed
	redisURL       string        // secret: never printed
	connMaxAge     time.Duration // 0: a new connection for every request
	correlated     bool          // query shape: correlated subqueries, else join and group
	cacheTTL       time.Duration // 0: no read cache
	poolSize       int
	throttleRPS    float64 // 0: no throttle
	iterationsAtMs int64   // of /work for one millisecond
}

// loadConfig reads every setting and reports all that is wrong with them.
func loadConfig(env func(string) string) (config, error) {
	var errs []error
	text := func(name, otherwise string) string {
		if v := env(name); v != "" {
			return v
		}
		return otherwise
	}
	number := func(name, otherwise string, least float64) float64 {
		v, err := strconv.ParseFloat(text(name, otherwise), 64)
		if err != nil || v < least {
			errs = append(errs, fmt.Errorf("%s: %q: want a number of at least %g", name, env(name), least))
		}
		return v
	}
	c := config{
		listen:      text("LISTEN", ":8080"),
		databaseURL: env("DATABASE_URL"),
		redisURL:    env("REDIS_URL"),
	}
	for _, name := range []string{"DATABASE_URL", "REDIS_URL"} {
		if env(name) == "" {
			errs = append(errs, fmt.Errorf("%s is not set", name))
		}
	}
	c.connMaxAge = time.Duration(number("CONN_MAX_AGE_SECONDS", "0", 0) * float64(time.Second))
	c.cacheTTL = time.Duration(number("CACHE_SECONDS", "0", 0) * float64(time.Second))
	c.poolSize = int(number("POOL_SIZE", "10", 1))
	c.throttleRPS = number("THROTTLE_RPS", "0", 0)
	c.iterationsAtMs = int64(number("WORK_ITERATIONS_PER_MS", "4000", 1))
	switch shape := text("QUERY_SHAPE", "join"); shape {
	case "join":
	case "subquery":
		c.correlated = true
	default:
		errs = append(errs, fmt.Errorf("QUERY_SHAPE: %q: want join or subquery", shape))
	}
	return c, errors.Join(errs...)
}
