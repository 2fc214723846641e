package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"lab/servicetest"
)

func contains(r reply, text string) bool { return strings.Contains(r.body, text) }

func TestThrottleComesBeforeTheCache(t *testing.T) {
	c := newMigrated(t)
	c.cacheTTL, c.throttleRPS = time.Hour, 0.001 // one token, the next in 1000 s
	s := newTestServer(t, c)
	_, key := s.cache.get(t.Context(), "/api/items")
	s.cache.put(t.Context(), key, []byte(`"kept"`))
	if got := s.want(200, s.get("/api/items")); got.cache != "hit" {
		t.Fatalf("the first read: %s, want a hit", got.cache)
	}
	if got := s.want(429, s.get("/api/items")); got.cache != "" || got.header.Get("Retry-After") == "" {
		t.Errorf("X-Cache %q, Retry-After %q; want none and some", got.cache, got.header.Get("Retry-After"))
	}
	s.want(429, s.get("/work?ms=1"))
	s.want(200, s.get("/healthz"))
	s.want(200, s.get("/readyz"))
}

func TestConnections(t *testing.T) {
	const requests = 12
	for _, tt := range []struct {
		name   string
		maxAge time.Duration
		want   int
	}{
		{"max age 0 opens one for each request", 0, requests},
		{"a max age keeps it", time.Minute, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newMigrated(t)
			c.connMaxAge = tt.maxAge
			s := newTestServer(t, c)
			before := connectionsTo(t, c.databaseURL)
			for range requests {
				s.want(200, s.get("/api/items/1"))
			}
			if got := connectionsTo(t, c.databaseURL) - before; got != tt.want {
				t.Errorf("Postgres saw %d connections for %d requests, want %d", got, requests, tt.want)
			}
			if got := s.primary.opened.Load(); got != int64(tt.want) {
				t.Errorf("the metric says %d, want %d", got, tt.want)
			}
		})
	}
}

func TestConnectionsAreClosedAfterTheRequest(t *testing.T) {
	c := newMigrated(t)
	c.connMaxAge = 0
	s := newTestServer(t, c)
	s.want(200, s.get("/api/items"))
	err := servicetest.Until(func() error { // the server notices the end a moment later
		if n := queryText(t, c.databaseURL, "SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'lab-app'"); n != "0" {
			return errors.New(n + " connections are open")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestPoolSizeBoundsConnectionsEitherWay(t *testing.T) {
	for _, maxAge := range []time.Duration{0, time.Minute} {
		t.Run(maxAge.String(), func(t *testing.T) {
			c := newConfig(t)
			c.connMaxAge, c.poolSize = maxAge, 1
			s := newTestServer(t, c)
			err := s.primary.with(t.Context(), func(*pgx.Conn) error {
				if got := s.primary.inUse(); got != 1 {
					t.Errorf("%d connections in use, want 1", got)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				return s.primary.ping(ctx)
			})
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a second connection: %v, want to wait for the first until the deadline", err)
			}
			if err := s.primary.ping(t.Context()); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

func TestReadsGoToTheReplicaAndWritesToThePrimary(t *testing.T) {
	primary, replica := newMigrated(t), newMigrated(t)
	execSQL(t, replica.databaseURL, "UPDATE catalogue.item SET title = 'on the replica'")
	primary.replicaURL = replica.databaseURL
	s := newTestServer(t, primary)
	for _, path := range []string{"/api/items", "/api/items/1"} {
		if got := s.want(200, s.get(path)); !contains(got, "on the replica") {
			t.Errorf("%s did not come from the replica", path)
		}
	}
	s.want(201, s.do("POST", "/api/items/1/interactions", ""))
	for _, tt := range []struct{ url, want string }{{primary.databaseURL, "6001"}, {replica.databaseURL, "6000"}} {
		if got := queryText(t, tt.url, "SELECT count(*)::text FROM catalogue.interaction"); got != tt.want {
			t.Errorf("%s interactions, want %s", got, tt.want)
		}
	}
	s.want(200, s.get("/readyz"))
}

func TestReadyNeedsBothServices(t *testing.T) {
	gone := "postgres://postgres@/none?host=" + url.QueryEscape(t.TempDir())
	for _, tt := range []struct {
		name string
		with func(*config)
		want int
	}{
		{"with both it is ready", func(*config) {}, 200},
		{"without the database it is not", func(c *config) { c.databaseURL = gone }, 503},
		{"without the replica it is not", func(c *config) { c.replicaURL = gone }, 503},
		{"without Redis it is not", func(c *config) { c.redisURL = "redis://127.0.0.1:1/0" }, 503},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newConfig(t)
			tt.with(&c)
			s := newTestServer(t, c)
			s.want(tt.want, s.get("/readyz"))
			s.want(200, s.get("/healthz"))
		})
	}
}

func TestReadinessIsTurnedOffAndOnFromTheMachineItselfOnly(t *testing.T) {
	s := newTestServer(t, newConfig(t))
	s.want(200, s.do("POST", "/readyz?ready=false", ""))
	s.want(503, s.get("/readyz"))
	s.want(200, s.get("/healthz"))
	s.want(200, s.do("POST", "/readyz?ready=true", ""))
	s.want(200, s.get("/readyz"))
	s.want(400, s.do("POST", "/readyz?ready=perhaps", ""))
	s.want(403, s.do("POST", "/readyz?ready=false", "", "X-Forwarded-For", "192.0.2.1"))
	for _, from := range []string{"192.0.2.1:9", "[2001:db8::1]:9", "nonsense"} {
		r := httptest.NewRequest("POST", "/readyz?ready=false", nil)
		r.RemoteAddr = from
		w := httptest.NewRecorder()
		s.setReady(w, r)
		if w.Code != http.StatusForbidden {
			t.Errorf("from %s: %d, want 403", from, w.Code)
		}
	}
	s.want(200, s.get("/readyz"))
}

func TestShutdownFinishesTheRequestsItHas(t *testing.T) {
	c := newMigrated(t)
	s, err := newServer(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	served := make(chan error, 1)
	go func() { served <- s.serve(ctx, listener) }()

	// A lock holds the request in the database until the shutdown has begun.
	holder, err := pgx.Connect(t.Context(), c.databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close(context.Background())
	if _, err := holder.Exec(t.Context(), "BEGIN; LOCK TABLE catalogue.item"); err != nil {
		t.Fatal(err)
	}
	status := make(chan int, 1)
	go func() {
		got, err := http.Get("http://" + listener.Addr().String() + "/api/tags")
		if err != nil {
			t.Error(err)
			status <- 0
			return
		}
		got.Body.Close()
		status <- got.StatusCode
	}()
	if err := servicetest.Until(func() error {
		if queryText(t, c.databaseURL, "SELECT count(*)::text FROM pg_locks l JOIN pg_database d ON d.oid = l.database WHERE d.datname = current_database() AND NOT granted") != "1" {
			return errors.New("the request does not wait yet")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := servicetest.Until(func() error {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err == nil {
			conn.Close()
			return errors.New("it still listens")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	if got := <-status; got != 200 {
		t.Errorf("the request got %d, want 200", got)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestMetricsTellOfRequestsCacheAndPool(t *testing.T) {
	s := newCached(t)
	for range 3 {
		s.want(200, s.get("/api/items"))
	}
	s.want(200, s.get("/api/items", "Cookie", "a=b"))
	got := s.get("/metrics")
	for _, want := range []string{
		`app_requests_total{endpoint="items",status="200"} 4`,
		`app_request_seconds_count{endpoint="items"} 4`,
		"app_in_flight 0",
		`app_cache_total{outcome="miss"} 1`, `app_cache_total{outcome="hit"} 2`, `app_cache_total{outcome="bypass"} 1`,
		"app_database_connections_limit 10",
		`app_database_connections_in_use{database="primary"} 0`,
		`app_database_connections_waiting{database="primary"} 0`,
		`app_database_connections_opened_total{database="primary"} 1`,
		`app_database_connections_refused_total{database="primary"} 0`,
	} {
		if !contains(got, "\n"+want+"\n") {
			t.Errorf("/metrics has no line %s", want)
		}
	}
}
