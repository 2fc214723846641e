package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"lab/servicetest"
)

// A real Postgres and a real Redis, started when the first test asks for them and
// shared by all: each test has a database of its own in both.
var (
	started      servicetest.Services
	nextDatabase atomic.Int64
	startOnce    sync.Once
	startError   error
)

const redisDatabases = 256

// partOfTest has the test's own program be a part of the workload.
const partOfTest = "APP_PART"

func TestMain(m *testing.M) {
	if part := os.Getenv(partOfTest); part != "" {
		os.Args = []string{"app", part}
		main()
		return
	}
	slog.SetDefault(slog.New(slog.DiscardHandler))
	code := m.Run()
	started.Stop()
	os.Exit(code)
}

// newConfig is a configuration with an empty database of its own in both services.
func newConfig(t *testing.T) config {
	t.Helper()
	startOnce.Do(func() {
		startError = errors.Join(started.StartPostgres(), started.StartRedis("--databases", strconv.Itoa(redisDatabases)))
	})
	if startError != nil {
		t.Fatalf("start the services (scripts/setup.sh test installs them): %v", startError)
	}
	n := nextDatabase.Add(1)
	if n >= redisDatabases {
		t.Fatalf("more than %d tests with a Redis database of their own", redisDatabases)
	}
	name := fmt.Sprintf("test_%d", n)
	execSQL(t, started.DatabaseURL("postgres"), "CREATE DATABASE "+name)
	env := map[string]string{
		"DATABASE_URL":           started.DatabaseURL(name),
		"REDIS_URL":              fmt.Sprintf("redis://%s/%d", started.RedisAddr, n),
		"CONN_MAX_AGE_SECONDS":   "60",
		"WORK_ITERATIONS_PER_MS": "100",
	}
	c, err := loadConfig(func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// newMigrated is newConfig with the catalogue in the database.
func newMigrated(t *testing.T) config {
	t.Helper()
	c := newConfig(t)
	if err := migrate(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return c
}

func execSQL(t *testing.T, url, sql string, args ...any) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func queryText(t *testing.T, url, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var text string
	if err := conn.QueryRow(t.Context(), sql).Scan(&text); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return text
}

// connectionsTo is how many connections to a database Postgres has logged.
func connectionsTo(t *testing.T, databaseURL string) int {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(started.LogFile())
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(log), "connection authorized: user=postgres database="+strings.TrimPrefix(u.Path, "/")+" ")
}

// testServer is a server of the web part.
type testServer struct {
	*server
	t   *testing.T
	url string
}

func newTestServer(t *testing.T, c config) *testServer {
	t.Helper()
	s, err := newServer(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s.handler())
	t.Cleanup(func() {
		h.Close()
		s.close()
	})
	return &testServer{server: s, t: t, url: h.URL}
}

type reply struct {
	status int
	body   string
	cache  string
	header http.Header
}

// do sends a request. Headers are names and values in turn.
func (s *testServer) do(method, path, body string, headers ...string) reply {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer got.Body.Close()
	raw, err := io.ReadAll(got.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return reply{got.StatusCode, string(raw), got.Header.Get("X-Cache"), got.Header}
}

func (s *testServer) get(path string, headers ...string) reply {
	s.t.Helper()
	return s.do(http.MethodGet, path, "", headers...)
}

// want fails the test unless a reply has that status.
func (s *testServer) want(status int, got reply) reply {
	s.t.Helper()
	if got.status != status {
		s.t.Fatalf("status %d, want %d: %s", got.status, status, got.body)
	}
	return got
}
