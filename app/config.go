package main

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// config is the environment, read. Its URLs hold passwords and are never printed.
type config struct {
	listen          string        // LISTEN, default ":8080"
	databaseURL     string        // DATABASE_URL, secret
	replicaURL      string        // REPLICA_URL, secret; "": reads go to databaseURL
	redisURL        string        // REDIS_URL, secret
	connMaxAge      time.Duration // CONN_MAX_AGE_SECONDS; 0: a new connection for every request
	correlated      bool          // QUERY_SHAPE: correlated subqueries, else join and group
	cacheTTL        time.Duration // CACHE_SECONDS; 0: no read cache
	poolSize        int           // POOL_SIZE: connections at once, to each database
	throttleRPS     float64       // THROTTLE_RPS; 0: no throttle
	iterationsPerMs int64         // WORK_ITERATIONS_PER_MS: hashes of /work for one millisecond
	beatEvery       time.Duration // BEAT_SECONDS: between two scheduled jobs
	drain           time.Duration // DRAIN_SECONDS: at most, that web goes on answering when it is to end
	logLevel        slog.Level    // LOG_LEVEL: debug, info, warn or error
}

// environment reads settings and keeps what is wrong with them.
type environment struct {
	get      func(string) string
	problems []error
}

func (e *environment) problem(format string, args ...any) {
	e.problems = append(e.problems, fmt.Errorf(format, args...))
}

// text is a setting's value, or its default where it is unset or empty.
func (e *environment) text(name, otherwise string) string {
	if v := e.get(name); v != "" {
		return v
	}
	return otherwise
}

func (e *environment) whole(name string, otherwise, least, most int64) int64 {
	text := e.text(name, strconv.FormatInt(otherwise, 10))
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v < least || v > most {
		e.problem("%s: %q is not a whole number from %d to %d; the default is %d", name, text, least, most, otherwise)
	}
	return v
}

func (e *environment) oneOf(name string, allowed ...string) string {
	text := e.text(name, allowed[0])
	if !slices.Contains(allowed, text) {
		e.problem("%s: %q is not one of %s", name, text, strings.Join(allowed, ", "))
	}
	return text
}

// address reads a URL with a password: a problem names the setting, not the value.
func (e *environment) address(name string, required bool, schemes ...string) string {
	text := e.get(name)
	if text == "" {
		if required {
			e.problem("%s: is not set; give it a URL %s://USER:PASSWORD@HOST:PORT/NAME", name, schemes[0])
		}
		return ""
	}
	if u, err := url.Parse(text); err != nil || !slices.Contains(schemes, u.Scheme) {
		e.problem("%s: is not a URL that starts with %s:// (percent-encode special characters in the password)", name, strings.Join(schemes, ":// or "))
	}
	return text
}

// loadConfig reads every setting and reports all that is wrong with them, one a line.
func loadConfig(get func(string) string) (config, error) {
	const day = 86_400
	e := &environment{get: get}
	c := config{
		listen:          e.text("LISTEN", ":8080"),
		databaseURL:     e.address("DATABASE_URL", true, "postgres", "postgresql"),
		replicaURL:      e.address("REPLICA_URL", false, "postgres", "postgresql"),
		redisURL:        e.address("REDIS_URL", true, "redis", "rediss"),
		connMaxAge:      time.Duration(e.whole("CONN_MAX_AGE_SECONDS", 0, 0, day)) * time.Second,
		correlated:      e.oneOf("QUERY_SHAPE", "join", "subquery") == "subquery",
		cacheTTL:        time.Duration(e.whole("CACHE_SECONDS", 0, 0, day)) * time.Second,
		poolSize:        int(e.whole("POOL_SIZE", 10, 1, 10_000)),
		iterationsPerMs: e.whole("WORK_ITERATIONS_PER_MS", 12_000, 1, 10_000_000),
		beatEvery:       time.Duration(e.whole("BEAT_SECONDS", 60, 1, day)) * time.Second,
		drain:           time.Duration(e.whole("DRAIN_SECONDS", 0, 0, 300)) * time.Second,
	}
	if _, port, err := net.SplitHostPort(c.listen); err != nil || port == "" {
		e.problem("LISTEN: %q is not HOST:PORT or :PORT", c.listen)
	}
	throttle := e.text("THROTTLE_RPS", "0")
	rps, err := strconv.ParseFloat(throttle, 64)
	if err != nil || math.IsNaN(rps) || rps < 0 || rps > 1e9 {
		e.problem("THROTTLE_RPS: %q is not a number of requests per second; 0 is for no throttle", throttle)
	}
	c.throttleRPS = rps
	level := e.oneOf("LOG_LEVEL", "warn", "debug", "info", "error")
	if err := c.logLevel.UnmarshalText([]byte(level)); err != nil {
		c.logLevel = slog.LevelWarn // reported by oneOf
	}
	return c, errors.Join(e.problems...)
}
