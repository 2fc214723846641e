package main

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestConfigHasDefaultsForAllButTheAddresses(t *testing.T) {
	env := map[string]string{"DATABASE_URL": "postgres://u:p@db/app", "REDIS_URL": "redis://:p@cache:6379/0"}
	got, err := loadConfig(func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	want := config{
		listen: ":8080", databaseURL: env["DATABASE_URL"], redisURL: env["REDIS_URL"],
		poolSize: 10, iterationsPerMs: 12_000, beatEvery: time.Minute, logLevel: slog.LevelWarn,
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(config{})); diff != "" {
		t.Error(diff)
	}
}

func TestConfigReportsEveryProblemAtOnceAndNoSecret(t *testing.T) {
	env := map[string]string{
		"LISTEN": "8080", "DATABASE_URL": "mysql://u:hunter2@db/app", "REPLICA_URL": "postgres://u:hunter2%zz@db/app",
		"CONN_MAX_AGE_SECONDS": "-1", "QUERY_SHAPE": "lateral", "CACHE_SECONDS": "30s", "POOL_SIZE": "0",
		"THROTTLE_RPS": "NaN", "WORK_ITERATIONS_PER_MS": "1e3", "BEAT_SECONDS": "0", "DRAIN_SECONDS": "301", "LOG_LEVEL": "loud",
	}
	_, err := loadConfig(func(name string) string { return env[name] })
	if err == nil {
		t.Fatal("no error")
	}
	want := `DATABASE_URL: is not a URL that starts with postgres:// or postgresql:// (percent-encode special characters in the password)
REPLICA_URL: is not a URL that starts with postgres:// or postgresql:// (percent-encode special characters in the password)
REDIS_URL: is not set; give it a URL redis://USER:PASSWORD@HOST:PORT/NAME
CONN_MAX_AGE_SECONDS: "-1" is not a whole number from 0 to 86400; the default is 0
QUERY_SHAPE: "lateral" is not one of join, subquery
CACHE_SECONDS: "30s" is not a whole number from 0 to 86400; the default is 0
POOL_SIZE: "0" is not a whole number from 1 to 10000; the default is 10
WORK_ITERATIONS_PER_MS: "1e3" is not a whole number from 1 to 10000000; the default is 12000
BEAT_SECONDS: "0" is not a whole number from 1 to 86400; the default is 60
DRAIN_SECONDS: "301" is not a whole number from 0 to 300; the default is 0
LISTEN: "8080" is not HOST:PORT or :PORT
THROTTLE_RPS: "NaN" is not a number of requests per second; 0 is for no throttle
LOG_LEVEL: "loud" is not one of warn, debug, info, error`
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Error(diff)
	}
}

func TestAddressesThatCannotBeReadKeepTheirPasswords(t *testing.T) {
	c := config{databaseURL: "postgres://u:hunter2@db:notaport/app", redisURL: "redis://:hunter2@cache:6379/notanumber", poolSize: 1}
	_, databaseErr := openDatabase(t.Context(), c.databaseURL, c)
	_, redisErr := openRedis(c)
	for _, err := range []error{databaseErr, redisErr, migrate(t.Context(), c)} {
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("error %v; want one without the password", err)
		}
	}
}
