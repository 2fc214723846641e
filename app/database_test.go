package main

import (
	"strings"
	"testing"
	"time"
)

// A database that refuses a connection counts it nowhere, so the workload does.
func TestRefusedConnectionsAreCounted(t *testing.T) {
	c := newConfig(t)
	execSQL(t, c.databaseURL, "CREATE ROLE unwanted LOGIN CONNECTION LIMIT 0")
	url := strings.Replace(c.databaseURL, "postgres@", "unwanted@", 1)
	for _, row := range []struct {
		name   string
		url    string
		maxAge time.Duration
		want   int64
	}{
		{"kept connections", url, time.Minute, 3},
		{"a connection for every request", url, 0, 3},
		{"another error", strings.Replace(c.databaseURL, "postgres@", "nobody@", 1), 0, 0},
	} {
		c.connMaxAge = row.maxAge
		d, err := openDatabase(t.Context(), row.url, c)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := d.ping(t.Context()); err == nil {
				t.Errorf("%s: connected", row.name)
			}
		}
		if got := d.refused.Load(); got != row.want {
			t.Errorf("%s: %d refused, want %d", row.name, got, row.want)
		}
		d.close()
	}
}
