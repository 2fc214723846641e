package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

// services are a real Postgres and a real Redis, started when the first test asks
// for them and shared by all: each test has a database of its own in both.
type services struct {
	dir       string // of Postgres: cluster, socket and log
	redisAddr string
	stop      []func()
	next      atomic.Int64 // the next test's database
}

var (
	started    services
	startOnce  sync.Once
	startError error
)

const redisDatabases = 256

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	code := m.Run()
	for _, stop := range slices.Backward(started.stop) {
		stop()
	}
	os.Exit(code)
}

// newConfig is a configuration with an empty database of its own in both services.
func newConfig(t *testing.T) config {
	t.Helper()
	startOnce.Do(func() { startError = errors.Join(started.startPostgres(), started.startRedis()) })
	if startError != nil {
		t.Fatalf("start the services (scripts/setup.sh test installs them): %v", startError)
	}
	n := started.next.Add(1)
	if n >= redisDatabases {
		t.Fatalf("more than %d tests with a Redis database of their own", redisDatabases)
	}
	name := fmt.Sprintf("test_%d", n)
	execSQL(t, started.databaseURL("postgres"), "CREATE DATABASE "+name)
	env := map[string]string{
		"DATABASE_URL":           started.databaseURL(name),
		"REDIS_URL":              fmt.Sprintf("redis://%s/%d", started.redisAddr, n),
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

func (s *services) databaseURL(name string) string {
	return "postgres://postgres@/" + name + "?host=" + url.QueryEscape(s.dir)
}

func (s *services) startPostgres() error {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return fmt.Errorf("there is no Postgres below /usr/lib/postgresql: %w", errors.Join(err, exec.ErrNotFound))
	}
	bin := filepath.Dir(found[len(found)-1])
	if s.dir, err = os.MkdirTemp("", "app"); err != nil {
		return err
	}
	s.stop = append(s.stop, func() { os.RemoveAll(s.dir) })
	attributes, err := unprivileged(s.dir)
	if err != nil {
		return err
	}
	data := filepath.Join(s.dir, "data")
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	initdb.SysProcAttr, initdb.Dir = attributes, s.dir
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	server := exec.Command(filepath.Join(bin, "postgres"), "-D", data, "-k", s.dir, "-c", "listen_addresses=",
		"-c", "fsync=off", "-c", "log_connections=on")
	server.SysProcAttr, server.Dir = attributes, s.dir
	if err := s.start(server, s.logFile(), syscall.SIGINT); err != nil {
		return err
	}
	return until(func() error {
		conn, err := pgx.Connect(context.Background(), s.databaseURL("postgres"))
		if err != nil {
			return err
		}
		return conn.Close(context.Background())
	})
}

func (s *services) logFile() string { return filepath.Join(s.dir, "log") }

// unprivileged has a child run as the user postgres and own the folder, since
// Postgres refuses root. It ends when this process does.
func unprivileged(dir string) (*syscall.SysProcAttr, error) {
	attributes := &syscall.SysProcAttr{Pdeathsig: syscall.SIGINT}
	if os.Geteuid() != 0 {
		return attributes, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	attributes.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return attributes, os.Chown(dir, int(uid), int(gid))
}

func (s *services) startRedis() error {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.redisAddr = free.Addr().String()
	if err := free.Close(); err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(s.redisAddr)
	server := exec.Command("redis-server", "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no",
		"--databases", strconv.Itoa(redisDatabases))
	server.Dir = s.dir
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := s.start(server, filepath.Join(s.dir, "redis-log"), syscall.SIGTERM); err != nil {
		return err
	}
	r := redis.NewClient(&redis.Options{Addr: s.redisAddr})
	defer r.Close()
	return until(func() error { return r.Ping(context.Background()).Err() })
}

func (s *services) start(server *exec.Cmd, log string, end os.Signal) error {
	output, err := os.Create(log)
	if err != nil {
		return err
	}
	defer output.Close()
	server.Stdout, server.Stderr = output, output
	if err := server.Start(); err != nil {
		return err
	}
	s.stop = append(s.stop, func() {
		_ = server.Process.Signal(end)
		_ = server.Wait()
	})
	return nil
}

// until asks again until there is no error, for a minute.
func until(ask func() error) error {
	deadline := time.Now().Add(time.Minute)
	for {
		err := ask()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(20 * time.Millisecond) // between two questions, not instead of one
	}
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
	log, err := os.ReadFile(started.logFile())
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
