package sample

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"lab/loadtest/analysis"
	"lab/loadtest/plan"
	"lab/servicetest"
)

// start starts real services for one test.
func start(t *testing.T, starters ...func(*servicetest.Services) error) *servicetest.Services {
	t.Helper()
	s := &servicetest.Services{}
	t.Cleanup(s.Stop)
	for _, start := range starters {
		if err := start(s); err != nil {
			t.Fatalf("start the services (scripts/setup.sh test installs them): %v", err)
		}
	}
	return s
}

func ask(t *testing.T, s *Services) Counters {
	t.Helper()
	at := time.Now()
	answers, err := s.Read()
	if err != nil {
		t.Fatal(err)
	}
	return Counters{UnixNano: at.UnixNano(), MonotonicNano: at.Sub(started).Nanoseconds(), Services: answers}
}

func newServices(t *testing.T, all ...plan.Service) *Services {
	t.Helper()
	s, err := NewServices(all)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func run(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func TestPostgresTellsItsSessionsWaitsAndStatements(t *testing.T) {
	s := start(t, func(s *servicetest.Services) error {
		return s.StartPostgres("max_connections=20", "superuser_reserved_connections=3", "shared_preload_libraries=pg_stat_statements")
	})
	admin := connect(t, s.DatabaseURL("postgres"))
	run(t, admin, "CREATE EXTENSION pg_stat_statements; CREATE TABLE held (id int); CREATE ROLE lab_monitor LOGIN; GRANT pg_monitor TO lab_monitor")
	services := newServices(t, plan.Service{Kind: analysis.ServicePostgres, Address: s.Dir, User: "lab_monitor", Database: "postgres"})
	h := plan.Host{Name: "database", Services: []string{analysis.ServicePostgres}}
	before := ask(t, services)

	holder, waiter := connect(t, s.DatabaseURL("postgres")), connect(t, s.DatabaseURL("postgres"))
	run(t, holder, "BEGIN; LOCK TABLE held")
	waited := make(chan error, 1)
	go func() {
		_, err := waiter.Exec(context.Background(), "SELECT count(*) FROM held")
		waited <- err
	}()
	for range 30 {
		run(t, admin, "SELECT pg_sleep(0.002)")
	}
	for deadline := time.Now().Add(30 * time.Second); ; { // until Postgres shows the wait
		if after := ask(t, services); after.Services[0].Waiting == 1 || time.Now().After(deadline) {
			break
		}
	}
	services.by[0].(*postgres).at = time.Time{} // the statements are due
	after := ask(t, services)
	run(t, holder, "COMMIT")
	if err := <-waited; err != nil {
		t.Error(err)
	}

	u := UseServices(h, []Counters{before, after})[0]
	if u.Samples != 2 || u.ConnectionLimit != 16 || u.ConnectionsMax != 3 || u.Waiting != 0.5 || u.Waits["Lock"] != 0.5 {
		t.Errorf("%+v; want 3 sessions of 16 (20 less the superuser's 3 and the sampler's own), and one that waits for a lock in one of two readings", u)
	}
	if len(u.Statements) == 0 || u.Statements[0].Calls != 30 || u.Statements[0].MeanMs < 2 || u.Statements[0].ShareRatio < 0.5 {
		t.Errorf("statements %+v; want 30 calls of 2 ms first", u.Statements)
	}
	if u.HitRatio <= 0 || u.HitRatio > 1 {
		t.Errorf("hit ratio %g", u.HitRatio)
	}

	// The sampler stays connected when there is no connection left for others: they
	// hold just what the limit says.
	hold(t, s, "lab_monitor")
	if full := ask(t, services).Services[0]; full.Connections != full.Limit || full.Full {
		t.Errorf("%+v; want all connections held, and the sampler connected", full)
	}
}

// hold opens connections of a role until the server refuses one.
func hold(t *testing.T, s *servicetest.Services, role string) {
	t.Helper()
	for {
		conn, err := pgx.Connect(t.Context(), strings.Replace(s.DatabaseURL("postgres"), "postgres@", role+"@", 1))
		if err != nil {
			return
		}
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
	}
}

// A sampler that lost its connection while the clients hold all of them was a gap
// in the data, just when connections were the wall.
func TestAFullPostgresIsAReadingAndNoGap(t *testing.T) {
	s := start(t, func(s *servicetest.Services) error {
		return s.StartPostgres("max_connections=12", "superuser_reserved_connections=3", "shared_preload_libraries=pg_stat_statements")
	})
	admin := connect(t, s.DatabaseURL("postgres"))
	run(t, admin, "CREATE EXTENSION pg_stat_statements; CREATE ROLE client LOGIN; CREATE ROLE lab_monitor LOGIN CONNECTION LIMIT 1; GRANT pg_monitor TO lab_monitor")
	service := plan.Service{Kind: analysis.ServicePostgres, Address: s.Dir, User: "lab_monitor", Database: "postgres", Limit: 8}
	services, late := newServices(t, service), newServices(t, service)
	h := plan.Host{Name: "database", Services: []string{analysis.ServicePostgres}}
	if _, err := late.Read(); err != nil {
		t.Fatal(err)
	}
	// Its own role's limit is no full server.
	if _, err := services.Read(); err == nil || !strings.Contains(err.Error(), "53300") {
		t.Errorf("%v; want the role's own limit as an error", err)
	}
	// A session that is turned away counts for its role until it has ended, which the next may not wait for.
	run(t, admin, "ALTER ROLE lab_monitor CONNECTION LIMIT 8")
	kill := func() {
		run(t, admin, "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = 'lab_monitor'")
		_, _ = late.Read() // it finds its connection gone
	}
	kill()
	before := ask(t, services)
	run(t, admin, "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = 'lab_monitor'")
	hold(t, s, "client")
	_, _ = services.Read() // it finds its connection gone
	during := ask(t, services)
	after := ask(t, services)
	u := UseServices(h, []Counters{during, after})[0]
	if u.Samples != 2 || u.Connections != 8 || u.ConnectionLimit != 8 || u.Refused != 1 || u.HitRatio != -1 || len(u.Statements) != 0 {
		t.Errorf("%+v; want two readings of 8 connections of 8, one refused between them, and nothing else", u)
	}
	if u := UseServices(h, []Counters{before, during, after})[0]; u.Refused != 2 || u.HitRatio > 1 || u.ConnectionsMax != 8 {
		t.Errorf("%+v; want what was refused since the first reading", u)
	}
	// A sampler that was never told the limit has it from its list.
	if c := ask(t, newServices(t, service)).Services[0]; !c.Full || c.Limit != 8 || c.Refused != 1 {
		t.Errorf("%+v", c)
	}
}

// A single thread has a core at most, and less in a machine that is capped below
// one: Redis at the cap of 0.2 CPUs was reported at 20 % of a core.
func TestAThreadIsComparedWithWhatItMayUse(t *testing.T) {
	at := func(second int64, cpu float64) Counters {
		return Counters{MonotonicNano: 1 + second*1e9, Services: []ServiceCounters{{Kind: "redis", Threads: map[string]float64{"main": cpu}}}}
	}
	for _, row := range []struct {
		cpus, used, want float64
	}{{0.2, 1.9, 0.95}, {1, 9.5, 0.95}, {4, 9.5, 0.95}, {0, 9.5, 0.95}, {0.5, 1, 0.2}} {
		u := UseServices(plan.Host{CPUs: row.cpus, Services: []string{"redis"}}, []Counters{at(0, 5), at(10, 5+row.used)})[0]
		if math.Abs(u.ThreadRatio-row.want) > 1e-9 {
			t.Errorf("%g CPU seconds in 10 s of %g CPUs: %g, want %g", row.used, row.cpus, u.ThreadRatio, row.want)
		}
	}
}

func TestRedisTellsItsClientsLookupsAndThread(t *testing.T) {
	s := start(t, func(s *servicetest.Services) error {
		return s.StartRedis("--requirepass", "secret", "--maxclients", "12")
	})
	client := redis.NewClient(&redis.Options{Addr: s.RedisAddr, Password: "secret", PoolSize: 4})
	defer client.Close()
	services := newServices(t, plan.Service{Kind: analysis.ServiceRedis, Address: s.RedisAddr, Password: "secret"})
	h := plan.Host{Name: "cache", Services: []string{analysis.ServiceRedis}}
	if err := client.Set(t.Context(), "there", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	before := ask(t, services)
	for i := range 100 {
		key := "missing"
		if i < 25 {
			key = "there"
		}
		if err := client.Get(t.Context(), key).Err(); err != nil && !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
	}
	// A script keeps the one thread at work.
	if err := client.Eval(t.Context(), "local n = 0 for i = 1, 2e7 do n = n + i end return 1", nil).Err(); err != nil {
		t.Fatal(err)
	}
	refused := 0
	for range 20 {
		conn, err := net.Dial("tcp", s.RedisAddr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	for deadline := time.Now().Add(10 * time.Second); refused == 0 && time.Now().Before(deadline); {
		refused = int(ask(t, services).Services[0].Refused) // Redis turns them away when it comes to them
	}
	after := ask(t, services)
	u := UseServices(h, []Counters{before, after})[0]
	if u.HitRatio != 0.25 || u.ConnectionLimit != 12 || u.Refused < 8 || u.ConnectionsMax < 11 {
		t.Errorf("%+v; want a hit ratio of 0.25, a limit of 12 and at least 8 refused", u)
	}
	if u.ThreadRatio < 0.3 || u.ThreadRatio > 1.05 {
		t.Errorf("the main thread was at %g of a core in a busy loop", u.ThreadRatio)
	}
}

func TestNginxTellsItsConnectionsAndWorkers(t *testing.T) {
	address, err := servicetest.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	start(t, func(s *servicetest.Services) error {
		return s.StartNginx(fmt.Sprintf(`worker_processes 1; error_log stderr; events { worker_connections 64; }
http { access_log off; server { listen %s; location /status { stub_status; } } }`, address), address)
	})
	for range 7 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Write([]byte("GET ")); err != nil { // an accepted connection, in the middle of its request
			t.Fatal(err)
		}
	}
	services := newServices(t, plan.Service{Kind: analysis.ServiceNginx, Address: "http://" + address + "/status", Limit: 32})
	var c ServiceCounters
	for deadline := time.Now().Add(10 * time.Second); c.Connections < 7 && time.Now().Before(deadline); {
		c = ask(t, services).Services[0]
	}
	if c.Connections != 7 || c.Limit != 32 || c.Refused != 0 || len(c.Threads) == 0 {
		t.Errorf("%+v; want 7 connections of 32 and a worker", c)
	}
}

func TestAppTellsItsPool(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "# TYPE app_database_connections_in_use gauge\napp_database_connections_in_use{database=\"primary\"} 19\napp_database_connections_in_use{database=\"replica\"} 1\n"+
			"# TYPE app_database_connections_limit gauge\napp_database_connections_limit 20\n# TYPE app_database_connections_waiting gauge\napp_database_connections_waiting{database=\"primary\"} 35\n"+
			"# TYPE app_database_connections_refused_total counter\napp_database_connections_refused_total{database=\"primary\"} 3\napp_database_connections_refused_total{database=\"replica\"} 4\n")
	}))
	defer server.Close()
	c := ask(t, newServices(t, plan.Service{Kind: analysis.ServiceApp, Address: server.URL})).Services[0]
	if c.Connections != 20 || c.Limit != 20 || c.Waiting != 35 || c.Refused != 7 {
		t.Errorf("%+v", c)
	}
}

// A service that is down or hangs has no samples: no data is not idle. The others
// answer all the same.
func TestServicesThatDoNotAnswerHaveNoSamples(t *testing.T) {
	hang := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	defer server.Close()
	defer close(hang)
	closed, err := servicetest.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	services := newServices(t,
		plan.Service{Kind: analysis.ServicePostgres, Address: t.TempDir(), User: "nobody", Database: "none"},
		plan.Service{Kind: analysis.ServiceRedis, Address: closed},
		plan.Service{Kind: analysis.ServiceNginx, Address: "http://" + closed},
		plan.Service{Kind: analysis.ServiceApp, Address: server.URL})
	answers, err := services.Read()
	if len(answers) != 0 || err == nil {
		t.Fatalf("%+v, %v", answers, err)
	}
	for _, kind := range []string{"postgres", "redis", "nginx", "app"} {
		if !strings.Contains(err.Error(), kind+": ") {
			t.Errorf("the error does not name %s: %v", kind, err)
		}
	}
	u := UseServices(plan.Host{Name: "h", Services: []string{"redis"}}, []Counters{{}, {}})
	if len(u) != 1 || u[0].Samples != 0 || u[0].ThreadRatio != -1 || u[0].HitRatio != -1 {
		t.Errorf("%+v; want one service without samples", u)
	}
}

func TestServicesFileIsForItsOwnerOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "services.json")
	for _, row := range []struct {
		text string
		mode os.FileMode
		want string
	}{
		{`[{"kind":"redis","address":"127.0.0.1:1","password":"x"}]`, 0o644, "chmod 600"},
		{`[{"kind":"redis","address":"127.0.0.1:1","password":"x"}]`, 0o600, ""},
		{`[{"kind":"mysql"}]`, 0o600, `"mysql" is not known`},
		{`{`, 0o600, "services.json"},
	} {
		if err := errors.Join(os.WriteFile(path, []byte(row.text), row.mode), os.Chmod(path, row.mode)); err != nil {
			t.Fatal(err)
		}
		_, err := ReadServices(path)
		if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%s (%o): %v, want %q", row.text, row.mode, err, row.want)
		}
	}
}

// What restarted counts from 0, and a statement that is new from its beginning.
func TestTotalsThatFellCountAnew(t *testing.T) {
	at := func(second int64, c ServiceCounters) Counters {
		c.Kind = "postgres"
		return Counters{MonotonicNano: 1 + second*1e9, Services: []ServiceCounters{c}}
	}
	u := UseServices(plan.Host{Services: []string{"postgres"}}, []Counters{
		at(0, ServiceCounters{Refused: 100, Hits: 1000, Misses: 10, StatementsMs: 9000, Statements: []StatementCounter{{"a", 500, 8000}}}),
		at(10, ServiceCounters{Refused: 3, Hits: 90, Misses: 10, StatementsMs: 400, Statements: []StatementCounter{{"b", 50, 300}, {"a", 10, 100}}}),
	})[0]
	if u.Refused != 3 || u.HitRatio < 0.89 || u.HitRatio > 1 || u.LookupsRPS != 9 || len(u.Statements) != 2 || u.Statements[0] != (analysis.Statement{ID: "b", Calls: 50, MeanMs: 6, ShareRatio: 0.75}) {
		t.Errorf("%+v", u)
	}
}

func TestForeignIsWhatNoHostUsed(t *testing.T) {
	at := func(kind, boot string, cpu, busy, all float64) Counters {
		return Counters{Kind: kind, Boot: boot, CPUSeconds: cpu, BusySeconds: busy, MachineSeconds: all}
	}
	first := map[string]Counters{"a": at("cgroup", "x", 5, 100, 1000), "b": at("cgroup", "x", 7, 101, 1002), "own": at("proc", "y", 50, 50, 500)}
	last := map[string]Counters{"a": at("cgroup", "x", 9, 112, 1020), "b": at("cgroup", "x", 8, 113, 1022), "own": at("proc", "y", 60, 60, 520)}
	foreign := Foreign(first, last)
	if got := foreign["x"]; got < 0.349 || got > 0.351 { // 12 of 20 were busy, 5 of them the hosts'
		t.Errorf("foreign %g, want 0.35", got)
	}
	if _, ok := foreign["y"]; ok {
		t.Error("a machine of its own has no foreign CPU")
	}
}

// A service that answers late must not move the host's counters away from the
// time that they are said to be of.
func TestALateServiceDoesNotDelayTheHostsCounters(t *testing.T) {
	root := tree(t, map[string]string{
		"proc/stat":                           "cpu  100 0 0 900 0 0 0 0 0 0\n",
		"sys/fs/cgroup/cpu/cpu.cfs_quota_us":  "40000",
		"sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
		"sys/fs/cgroup/cpuacct/cpuacct.usage": "1000000000",
	})
	usage := filepath.Join(root, "sys/fs/cgroup/cpuacct/cpuacct.usage")
	// The host uses CPU while the service is asked: 0.4 s of it by the time of its answer.
	late := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := os.WriteFile(usage, []byte("1400000000"), 0o644); err != nil {
			t.Error(err)
		}
		_, _ = w.Write([]byte("# TYPE app_database_connections_in_use gauge\napp_database_connections_in_use 1\n"))
	}))
	defer late.Close()
	services, err := NewServices([]plan.Service{{Kind: analysis.ServiceApp, Address: late.URL}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := Reader{Root: root, Services: services}.Read()
	if err != nil {
		t.Fatal(err)
	}
	if c.CPUSeconds != 1 {
		t.Errorf("CPU %g s at the reading's time; want 1: 0.4 s were used while a service was asked", c.CPUSeconds)
	}
}
