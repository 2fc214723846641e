//go:build walls

package e2e

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"lab/loadtest/analysis"
)

var (
	wallsRepeats = flag.Int("repeats", 3, "measure each wall so often")
	wallsCases   = flag.String("cases", ".", "regular expression: the walls to measure")
)

// remeasured bounds how often a run is repeated that others' load has spoiled.
const remeasured = 3

// wallsLab is the stack of the walls: what is not set here is the same for all.
type wallsLab struct {
	app, database, cache, edge, loadgen float64 // CPUs; about 1.7 in all
	maxConnections                      int
	edgeLinkMbps                        float64
	agents                              float64 // CPUs of each of a cluster's two; 0 without a cluster
	settleSeconds                       int
	workload                            string // YAML flow mapping
	floorRPS, capRPS, maxInFlight       int
	path                                string
}

func (l wallsLab) config(name string, repeat int) string {
	nodes := ""
	if l.agents > 0 {
		nodes = fmt.Sprintf(`
      - {name: server, kind: nspawn, roles: [server], cpus: 0.5, memoryMiB: 1024}
      - {name: agent-1, kind: nspawn, roles: [agent], cpus: %g, memoryMiB: 768}
      - {name: agent-2, kind: nspawn, roles: [agent], cpus: %g, memoryMiB: 768}
    cluster: {distribution: labkube, serverPods: false}`, l.agents, l.agents)
	}
	return fmt.Sprintf(`config:
  lab:infra:
    network: {name: %s, subnet: 10.78.0.0/24, loopback: 127.78.0.0/24}
    hosts:
      - {name: app, kind: nspawn, roles: [app], cpus: %g, memoryMiB: 512}
      - {name: database, kind: nspawn, roles: [database], cpus: %g, memoryMiB: 256}
      - {name: cache, kind: nspawn, roles: [cache], cpus: %g, memoryMiB: 256}
      - {name: edge, kind: nspawn, roles: [edge], cpus: %g, memoryMiB: 256, linkMbps: %g}
      - {name: loadgen, kind: nspawn, roles: [loadgen], cpus: %g, memoryMiB: 512}%s
    postgres: {maxConnections: %d}
  lab:workloads: %s
  lab:loadtest:
    step: %q
    runId: %q
    scenario:
      {floorRps: %d, capRps: %d, maxInFlight: %d, repeats: 1, warmupSeconds: 0, settleSeconds: %d,
       probeSeconds: 4, probeDiscard: 1, stepSeconds: 6, stepDiscard: 2, stepArrivals: 120,
       endpoints: [{name: one, path: %q, weight: 1}]}
`, network, l.app, l.database, l.cache, l.edge, l.edgeLinkMbps, l.loadgen, nodes, l.maxConnections, l.workload,
		name, fmt.Sprintf("%s %d", name, repeat), l.floorRPS, l.capRPS, l.maxInFlight, l.settleSeconds, l.path)
}

// wallCase is one wall that is built on purpose.
type wallCase struct {
	name   string
	lab    wallsLab
	inject func(t *testing.T) (undo func()) // what no configuration can cause; nil for none
	status []analysis.Status                // that lab may give
	wall   *regexp.Regexp                   // that it has to name
}

var numbered = []analysis.Status{analysis.StatusFound, analysis.StatusRetrograde}

// wallCases are in an order in which Postgres restarts only before the last one:
// the sessions that a case holds would not survive it.
var wallCases = []wallCase{
	{
		name:   "app CPU",
		lab:    wallsLab{app: 0.3, database: 0.3, cache: 0.2, edge: 0.3, loadgen: 0.5, maxConnections: 40, workload: "{}", floorRPS: 16, capRPS: 300, maxInFlight: 100, path: "/work?ms=10"},
		status: numbered, wall: regexp.MustCompile(`^app CPU at \d+%$`),
	},
	{
		name:   "database CPU",
		lab:    wallsLab{app: 0.5, database: 0.2, cache: 0.2, edge: 0.3, loadgen: 0.5, maxConnections: 40, workload: "{connMaxAgeSeconds: 0}", floorRPS: 4, capRPS: 300, maxInFlight: 100, path: "/api/items"},
		status: numbered, wall: regexp.MustCompile(`^database CPU at \d+%$`),
	},
	{
		name:   "Redis CPU",
		lab:    wallsLab{app: 0.7, database: 0.2, cache: 0.05, edge: 0.3, loadgen: 0.5, maxConnections: 40, workload: "{connMaxAgeSeconds: 600, cacheSeconds: 3600}", floorRPS: 400, capRPS: 5000, maxInFlight: 400, path: "/api/items"},
		status: numbered, wall: regexp.MustCompile(`^(cache CPU at \d+%|Redis main thread at \d+% of .*)$`),
	},
	{
		name:   "edge NIC",
		lab:    wallsLab{app: 0.5, database: 0.2, cache: 0.2, edge: 0.3, loadgen: 0.5, maxConnections: 40, edgeLinkMbps: 4, workload: "{connMaxAgeSeconds: 600, cacheSeconds: 3600}", floorRPS: 30, capRPS: 5000, maxInFlight: 100, path: "/api/items"},
		inject: slowLink, status: numbered, wall: regexp.MustCompile(`^edge NIC at \d+% of its link$`),
	},
	{
		name:   "generator",
		lab:    wallsLab{app: 0.3, database: 0.2, cache: 0.2, edge: 0.8, loadgen: 0.1, maxConnections: 40, workload: "{}", floorRPS: 200, capRPS: 20_000, maxInFlight: 400, path: "/-/edge"},
		status: []analysis.Status{analysis.StatusGeneratorLimited}, wall: regexp.MustCompile(`^none: load generator CPU at \d+%`),
	},
	{
		name:   "pool in the app",
		lab:    wallsLab{app: 0.4, database: 0.4, cache: 0.2, edge: 0.3, loadgen: 0.4, maxConnections: 40, workload: "{connMaxAgeSeconds: 600, poolSize: 5}", floorRPS: 25, capRPS: 300, maxInFlight: 100, path: "/api/item"},
		inject: slowStatements, status: numbered, wall: regexp.MustCompile(`^app database pool full \(5 of 5 in use, \d+ waiting\)$`),
	},
	{
		name: "database connections",
		lab:  wallsLab{app: 0.4, database: 0.4, cache: 0.2, edge: 0.3, loadgen: 0.4, maxConnections: 40, workload: "{connMaxAgeSeconds: 600, poolSize: 30}", floorRPS: 60, capRPS: 1000, maxInFlight: 100, path: "/api/item"},
		inject: func(t *testing.T) func() {
			freed, quick := holdSessions(t, 16), slowStatements(t)
			return func() { quick(); freed() }
		},
		status: numbered, wall: regexp.MustCompile(`^database connections at their limit \(3\d of 3\d\)$`),
	},
	{
		name:   "memory",
		lab:    wallsLab{app: 0.4, database: 0.6, cache: 0.1, edge: 0.2, loadgen: 0.4, maxConnections: 100, workload: "{connMaxAgeSeconds: 600, poolSize: 90}", floorRPS: 4, capRPS: 300, maxInFlight: 100, path: "/api/item"},
		inject: hungryStatements, status: nil, wall: regexp.MustCompile(`(^|; )database out of memory \(\d+ killed\)`), // whatever becomes of the run
	},
	{
		name:   "all nodes",
		lab:    clusterWall(0.3, "{minReplicas: 2, maxReplicas: 6, requestCpuMilli: 20, limitCpuMilli: 300, memoryMiB: 64}"),
		status: numbered, wall: regexp.MustCompile(`nodes at \d+%$`),
	},
	{
		name:   "one node",
		lab:    clusterWall(0.3, "{minReplicas: 1, maxReplicas: 1, requestCpuMilli: 40, limitCpuMilli: 300, memoryMiB: 64}"),
		status: numbered, wall: regexp.MustCompile(`^one node \(agent-[12]\) saturated at \d+% while others idled`),
	},
	{
		name:   "autoscaler",
		lab:    clusterWall(0.4, "{minReplicas: 1, maxReplicas: 2, requestCpuMilli: 40, limitCpuMilli: 100, memoryMiB: 64}"),
		status: numbered, wall: regexp.MustCompile(`^HPA app-web at max \(2\) while over target$`),
	},
	{
		name:   "no room for pods",
		lab:    clusterWall(0.4, "{minReplicas: 2, maxReplicas: 4, requestCpuMilli: 160, limitCpuMilli: 160, memoryMiB: 64}"),
		status: numbered, wall: regexp.MustCompile(`^[12] web pods? Pending: Insufficient cpu$`),
	},
}

// clusterWall is a lab with two agents and web pods as given, that do a fixed
// amount of work a request: nothing outside of the cluster is near its limit.
func clusterWall(agents float64, web string) wallsLab {
	return wallsLab{
		app: 0.1, database: 0.3, cache: 0.1, edge: 0.2, loadgen: 0.4, maxConnections: 100, agents: agents, settleSeconds: 20,
		workload: "{connMaxAgeSeconds: 600, poolSize: 8, web: " + web + ", worker: {minReplicas: 1, maxReplicas: 1, requestCpuMilli: 20, limitCpuMilli: 100, memoryMiB: 64}}",
		floorRPS: 4, capRPS: 300, maxInFlight: 100, path: "/work?ms=10",
	}
}

// inMachine is a command as the machine itself would run it.
func inMachine(t *testing.T, machine string, args ...string) *exec.Cmd {
	t.Helper()
	sshd := processes(t, machine, "sshd: /usr/sbin/sshd") // in no sandbox: what it sees is the machine's
	if len(sshd) == 0 {
		t.Fatalf("machine %s has no sshd", machine)
	}
	return exec.Command("nsenter", append([]string{"--target", strconv.Itoa(sshd[0]), "--mount", "--uts", "--ipc", "--net", "--pid", "--"}, args...)...)
}

func mustRun(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
}

// slowLink caps what the edge can send at 4 Mbit/s, as a slow port would.
func slowLink(t *testing.T) func() {
	t.Helper()
	tc, err := exec.LookPath("tc")
	if err != nil {
		t.Fatal(err)
	}
	sshd := processes(t, "edge", "sshd: /usr/sbin/sshd")
	if len(sshd) == 0 {
		t.Fatal("machine edge has no sshd")
	}
	in := func(args ...string) *exec.Cmd { // this machine's tc: the edge has none
		return exec.Command("nsenter", append([]string{"--target", strconv.Itoa(sshd[0]), "--net", "--", tc, "qdisc"}, args...)...)
	}
	mustRun(t, in("replace", "dev", "host0", "root", "tbf", "rate", "4mbit", "burst", "16kb", "limit", "1mb"))
	return func() { mustRun(t, in("delete", "dev", "host0", "root")) }
}

func sql(t *testing.T, text string) {
	t.Helper()
	// A server that lost a process recovers first.
	mustRun(t, inMachine(t, "database", "timeout", "30", "sh", "-c", "until pg_isready --quiet; do sleep 0.2; done"))
	mustRun(t, inMachine(t, "database", "runuser", "-u", "postgres", "--", "psql", "-v", "ON_ERROR_STOP=1", "-qd", "app", "-c", text))
}

// slowStatements has every question about items wait 0.1 s, without CPU.
func slowStatements(t *testing.T) func() {
	t.Helper()
	return itemPolicy(t, "(SELECT true FROM pg_sleep(0.1))")
}

// hungryStatements has every question about items hold some MB for 1.5 s: less time,
// and the CPU that it takes to fill them would be the wall.
func hungryStatements(t *testing.T) func() {
	t.Helper()
	return itemPolicy(t, "(SELECT length(repeat('x', 3000000) || pg_sleep(1.5)::text) > 0)")
}

// itemPolicy is a condition that Postgres evaluates once for each question about items.
func itemPolicy(t *testing.T, condition string) (undo func()) {
	t.Helper()
	sql(t, "CREATE POLICY each ON catalogue.item USING ("+condition+`);
		ALTER TABLE catalogue.item ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY`)
	return func() {
		sql(t, `ALTER TABLE catalogue.item DISABLE ROW LEVEL SECURITY, NO FORCE ROW LEVEL SECURITY; DROP POLICY each ON catalogue.item`)
	}
}

// holdSessions takes connections of the database, as a client would that forgets
// to close them.
func holdSessions(t *testing.T, n int) func() {
	t.Helper()
	var ends []func()
	for range n {
		cmd := inMachine(t, "database", "runuser", "-u", "postgres", "--", "psql", "-qtA", "-v", "ON_ERROR_STOP=1", "-d", "app")
		in, err := cmd.StdinPipe() // psql ends when it is closed
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, func() {
			_ = in.Close()
			_ = cmd.Wait() // also of a session that the server ended
		})
		answer := make([]byte, 2)
		if _, err := fmt.Fprintln(in, "SELECT 1;"); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(answer); err != nil || answer[0] != '1' {
			t.Fatalf("a session of the database: %v, answer %q", err, answer)
		}
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

// TestWalls builds walls of known kinds, one after the other, and looks what lab
// names. Every wall is measured several times, and has to be named each time.
func TestWalls(t *testing.T) {
	only := regexp.MustCompile(*wallsCases)
	s := newStack(t)
	ledger := filepath.Join(s.root, "results", "e2e.jsonl")
	for _, left := range []string{ledger, s.config} { // of a test that was killed
		if err := os.RemoveAll(left); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if out, _, err := s.run("destroy", "--yes", "--skip-preview", "--stack", "e2e"); err != nil {
			t.Errorf("destroy: %v\n%s", err, out)
		}
		for _, left := range leftovers() {
			t.Errorf("left behind after destroy: %s", left)
		}
		if err := os.Remove(s.config); err != nil {
			t.Error(err)
		}
	})
	s.must("stack", "init", "e2e")
	first := wallCases[0]
	quick := strings.Replace(first.lab.config("the stack comes up", 0), "{floorRps", "{kind: steady, floorRps", 1)
	s.up(quick) // what is injected needs machines

	var matrix strings.Builder
	for _, c := range wallCases {
		if !only.MatchString(c.name) {
			continue
		}
		right := 0
		for repeat := range *wallsRepeats {
			line, ok := s.wall(c, repeat+1)
			if ok {
				right++
			} else {
				t.Errorf("%s, repeat %d: %s", c.name, repeat+1, line)
			}
			fmt.Fprintf(&matrix, "%-22s %d  %-5t %s\n", c.name, repeat+1, ok, line)
		}
		t.Logf("%s: %d of %d named right", c.name, right, *wallsRepeats)
	}
	t.Logf("the walls: case, repeat, named right, what lab said\n%s", matrix.String())
}

// wall measures one wall once. A run that the rest of this machine has spoiled,
// by lab's own word, says nothing of it, and is made again.
func (s *stack) wall(c wallCase, repeat int) (line string, right bool) {
	s.t.Helper()
	if c.inject != nil {
		defer c.inject(s.t)()
	}
	for again := 0; ; again++ {
		o, _ := s.up(c.lab.config(c.name, 10*repeat+again))
		line = fmt.Sprintf("%s %s req/s: %s", o.CeilingStatus, o.Ceiling, o.Wall)
		for _, f := range o.Result.Findings {
			s.t.Logf("%s %d: finding: %s", c.name, repeat, f.Sentence)
		}
		s.t.Logf("%s %d: %s (%.0f s of load)", c.name, repeat, line, o.Result.LoadSeconds)
		status := c.status == nil
		for _, may := range c.status {
			status = status || o.CeilingStatus == string(may)
		}
		if right = status && c.wall.MatchString(o.Wall); right || again == remeasured || !crowded(o.Result.Invalid) {
			return line, right
		}
	}
}

// crowded says whether a run is invalid for nothing but what else the machine did.
func crowded(invalid []string) bool {
	for _, why := range invalid {
		if !strings.Contains(why, "is not of the lab") && !strings.HasPrefix(why, "steal on ") {
			return false
		}
	}
	return len(invalid) > 0
}
