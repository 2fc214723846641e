package analysis

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The rows of the published tables: the sentence they print for what they saw.
// Figures that a write-up does not give are filled in as idle.
func TestWallsOfTheWriteUps(t *testing.T) {
	host := func(name, role string, cpu float64) HostUse {
		return HostUse{Host: name, Roles: []string{role}, Samples: 10, CPUs: 2, CPURatio: cpu, PSICPURatio: -1, DiskRatio: -1, PSIIORatio: -1}
	}
	nodes := func(n int, cpu float64) []HostUse {
		var all []HostUse
		for i := range n {
			all = append(all, host(fmt.Sprintf("k3s-%d", i), "k3s", cpu))
		}
		return all
	}
	for _, row := range []struct {
		name  string
		hosts []HostUse
		want  string
	}{
		{"a single app VM", []HostUse{host("app", "app", 0.97)}, "app CPU at 97%"},
		{"three nodes, the database is hot", append(nodes(3, 0.62), host("database", "database", 0.95)), "database CPU at 95%"},
		{"connections kept", append(nodes(3, 0.98), host("database", "database", 0.65)), "k3s nodes at 98%"},
		{"queries rewritten", append(nodes(3, 0.98), host("database", "database", 0.28)), "k3s nodes at 98%"},
		{"nodes resized", append(nodes(3, 0.98), host("database", "database", 0.01), host("edge", "edge", 0.4)), "k3s nodes at 98%"},
		{"a cluster's node with the database's primary", append(nodes(2, 0.6), host("primary", "database", 0.99), host("replica", "replica", 0.5)), "primary CPU at 99%"},
		{"the same where the nodes serve too", []HostUse{host("pi1", "k3s", 0.6), host("pi2", "k3s", 0.5), {Host: "pi3", Roles: []string{"k3s", "database"}, Samples: 10, CPUs: 4, CPURatio: 0.99, PSICPURatio: -1, DiskRatio: -1, PSIIORatio: -1}}, "one node (pi3) saturated at 99% while others idled (median 55%)"},
		{"all three serving nodes at 95-98 %", []HostUse{host("pi1", "k3s", 0.95), host("pi2", "k3s", 0.98), host("pi3", "k3s", 0.97), host("pi4", "database", 0.5)}, "k3s nodes at 97%"},
		{"one hot node of four", append(nodes(3, 0.4), host("pi1", "k3s", 0.99)), "one node (pi1) saturated at 99% while others idled (median 40%)"},
		{"nothing is hot", nodes(3, 0.5), "unattributed: no watched resource at its limit"},
		{"hot by pressure", []HostUse{{Host: "app", Roles: []string{"app"}, Samples: 9, CPURatio: 0.91, PSICPURatio: 0.3}}, "app CPU at 91%"},
		{"not hot without pressure", []HostUse{{Host: "app", Roles: []string{"app"}, Samples: 9, CPURatio: 0.91, PSICPURatio: 0.05}}, "unattributed: no watched resource at its limit"},
		{"no samples are not idle", []HostUse{{Host: "app", Roles: []string{"app"}, CPURatio: 0.99, PSICPURatio: -1}}, "unattributed: no watched resource at its limit (no samples of app)"},
		{"the edge's link", []HostUse{host("app", "app", 0.7), {Host: "edge", Roles: []string{"edge"}, Samples: 9, CPURatio: 0.5, NetMbps: 1060, LinkMbps: 1000}}, "edge NIC at 106% of its link"},
		{"the disk", []HostUse{{Host: "database", Roles: []string{"database"}, Samples: 9, DiskRatio: 0.95, PSIIORatio: 0.4}}, "database disk at 95%"},
		{"out of memory comes before a hot CPU", []HostUse{host("database", "database", 0.97), {Host: "app", Roles: []string{"app"}, Samples: 9, OOMKills: 1}}, "app out of memory (1 killed)"},
		{"a full accept queue comes before a hot CPU", []HostUse{host("database", "database", 0.97), {Host: "edge", Roles: []string{"edge"}, Samples: 9, ListenOverflows: 3}}, "accept queue overflow on edge"},
	} {
		s := flat(100, 100)
		s.Hosts = row.hosts
		got, _ := wall(Result{Scenario: DefaultScenario()}, Verdict{Status: StatusFound}, one(s))
		if got != row.want {
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
	}
}

// What services say of themselves, beside hosts that are idle unless a row says
// otherwise.
func TestWallsOfServices(t *testing.T) {
	service := func(name string, change func(*ServiceUse)) ServiceUse {
		u := ServiceUse{Host: map[string]string{"postgres": "database", "redis": "cache", "nginx": "edge", "app": "app"}[name], Service: name, Samples: 10, ThreadRatio: -1, HitRatio: -1}
		change(&u)
		return u
	}
	idle := func() []HostUse {
		var all []HostUse
		for _, name := range []string{"app", "cache", "database", "edge"} {
			all = append(all, HostUse{Host: name, Roles: []string{name}, Samples: 10, CPUs: 1, CPURatio: 0.4, PSICPURatio: -1, DiskRatio: -1, PSIIORatio: -1})
		}
		return all
	}
	connections := func(in, limit float64, refused int64) func(*ServiceUse) {
		return func(u *ServiceUse) {
			u.Connections, u.ConnectionsMax, u.ConnectionLimit, u.Refused = in, in, limit, refused
		}
	}
	pool := func(u *ServiceUse) { u.Connections, u.ConnectionLimit, u.Waiting = 20, 20, 35 }
	for _, row := range []struct {
		name    string
		use     ServiceUse
		change  func(*Step)
		want    string
		finding string // among the secondary ones
	}{
		{"every database connection is taken", service("postgres", connections(97, 100, 0)), nil, "database connections at their limit (97 of 100)", ""},
		{"on a hot database they are a symptom", service("postgres", connections(97, 100, 0)), func(s *Step) { s.Hosts[2].CPURatio = 0.97 }, "database CPU at 97%", "database connections at their limit (97 of 100)"},
		{"a superuser on top of the limit", service("postgres", connections(37, 36, 0)), nil, "database connections at their limit (36 of 36)", ""},
		{"half of them are no wall", service("postgres", connections(50, 100, 0)), nil, "unattributed: no watched resource at its limit", ""},
		{"no samples are not a wall", ServiceUse{Host: "database", Service: "postgres", Connections: 100, ConnectionLimit: 100}, nil, "unattributed: no watched resource at its limit", ""},
		{"Redis turns clients away", service("redis", connections(10, 100, 7)), nil, "Redis refused 7 connections", ""},
		{"nginx has no connection left", service("nginx", connections(2048, 2048, 0)), nil, "nginx connections at their limit (2048 of 2048)", ""},
		{"Redis' one thread", service("redis", func(u *ServiceUse) { u.ThreadRatio = 0.97 }), nil, "Redis main thread at 97% of a core", ""},
		{"Redis' one thread in a machine of less than a core", service("redis", func(u *ServiceUse) { u.Host, u.ThreadRatio = "cache", 0.97 }), func(s *Step) { s.Hosts[1].CPUs = 0.2 }, "Redis main thread at 97% of its host's 0.2 CPUs", ""},
		{"the database refuses the app", service("app", func(u *ServiceUse) { u.Refused = 12 }), nil, "database refused 12 connections of the app", ""},
		{"the database refuses the app and is known to be full", service("postgres", connections(97, 100, 0)), func(s *Step) {
			s.Services = append(s.Services, ServiceUse{Host: "app", Service: "app", Samples: 10, Refused: 12})
		}, "database connections at their limit (97 of 100)", "database refused 12 connections of the app"},
		{"one nginx worker", service("nginx", func(u *ServiceUse) { u.ThreadRatio = 0.96 }), nil, "nginx worker at 96% of a core", ""},
		{"the app's pool", service("app", pool), nil, "app database pool full (20 of 20 in use, 35 waiting)", ""},
		{"the app's pool beside a hot database", service("app", pool), func(s *Step) { s.Hosts[2].CPURatio = 0.97 }, "database CPU at 97%", "app database pool full (20 of 20 in use, 35 waiting)"},
		{"a full pool that nobody waits for", service("app", func(u *ServiceUse) { u.Connections, u.ConnectionLimit = 20, 20 }), nil, "unattributed: no watched resource at its limit", ""},
		{"one heavy statement is noted", service("postgres", func(u *ServiceUse) { u.Statements = []Statement{{"42", 900, 4.25, 0.78}} }), nil, "unattributed: no watched resource at its limit", "one statement takes 78% of the database's time (queryid 42, 4.25 ms a call)"},
		{"the heaviest statement of an idle database is not", service("postgres", func(u *ServiceUse) { u.Statements = []Statement{{"42", 9, 0.25, 0.78}} }), nil, "unattributed: no watched resource at its limit", ""},
		{"sessions that wait for a lock are noted", service("postgres", func(u *ServiceUse) { u.Waits = map[string]float64{"Lock": 4.2, "Client": 30} }), nil, "unattributed: no watched resource at its limit", "4.2 database sessions wait for Lock"},
		{"a cold cache is noted", service("redis", func(u *ServiceUse) { u.HitRatio, u.LookupsRPS = 0.12, 80 }), nil, "unattributed: no watched resource at its limit", "Redis answers 12% of its lookups"},
		{"a queue that is looked into is no cold cache", service("redis", func(u *ServiceUse) { u.HitRatio, u.LookupsRPS = 0, 2 }), nil, "unattributed: no watched resource at its limit", ""},
		{"names that are not found", service("app", func(*ServiceUse) {}), func(s *Step) { s.Errors = map[string]int64{"dns": s.Arrivals / 20} }, "DNS: 5% of the lookups of the target's name failed", ""},
		{"a full conntrack table", service("app", func(*ServiceUse) {}), func(s *Step) { s.Hosts[3].ConntrackRatio = 0.93 }, "edge connection tracking table at 93%", ""},
	} {
		s := flat(100, 100)
		s.Hosts, s.Services = idle(), []ServiceUse{row.use}
		if row.change != nil {
			row.change(&s)
		}
		checkWall(t, row.name, s, row.want, row.finding)
	}
}

// checkWall compares what a step's wall is, and what else was found: a part of it, or
// nothing when that is "".
func checkWall(t *testing.T, name string, s Step, want, finding string) {
	t.Helper()
	got, findings := wall(Result{Scenario: DefaultScenario()}, Verdict{Status: StatusFound}, one(s))
	if got != want {
		t.Errorf("%s: %q, want %q", name, got, want)
	}
	noted := ""
	for _, f := range findings {
		noted += f.Sentence + "\n"
	}
	if finding == "" && noted != "" || !strings.Contains(noted, finding) {
		t.Errorf("%s: findings %q, want %q", name, noted, finding)
	}
}

// Kills far from the ceiling, and those that ended the run, are named all the same.
func TestKilledProcessesAreNamed(t *testing.T) {
	kill := func(above float64) func(*Step) {
		return func(s *Step) {
			if s.OfferedRPS > above {
				s.Hosts[0].OOMKills = 1
			}
		}
	}
	if v := Analyze(ramp(100, kill(115))); v.Wall != "app out of memory (2 killed)" || v.Status != StatusFound {
		t.Errorf("%s, %q", v.Status, v.Wall)
	}
	r := ramp(100, kill(85))
	for i := range r.Steps[4:] {
		r.Steps[4+i].Completed, r.Steps[4+i].P95Ms = 0, 0
	}
	if v := Analyze(r); v.Status != StatusTargetDown || !strings.Contains(v.Wall, "app out of memory") {
		t.Errorf("%s, %q", v.Status, v.Wall)
	}
}

// A host without memory answers nobody: that it fell silent is all that is known of it.
func TestHostsThatFellSilentAreNamed(t *testing.T) {
	r := ramp(100, func(s *Step) {
		if s.OfferedRPS > 85 {
			s.Completed, s.P95Ms, s.Hosts[0].Samples = 0, 0, 0
			return
		}
		s.Hosts[0].MemoryRatio = s.OfferedRPS / 100
	})
	var last, first float64
	for _, s := range slices.Backward(r.Steps) {
		if s.OfferedRPS <= 85 {
			last = s.OfferedRPS
			break
		}
		first = s.OfferedRPS
	}
	want := fmt.Sprintf("none: the target did not answer; app gave no readings from %s req/s on (memory at %.0f%%, CPU at ", formatRate(first), last)
	if v := Analyze(r); v.Status != StatusTargetDown || !strings.HasPrefix(v.Wall, want) {
		t.Errorf("%s, %q; want it to begin with %q", v.Status, v.Wall, want)
	}
}

func TestCapReachedNamesNothing(t *testing.T) {
	s := flat(600, 1e9)
	s.Hosts = []HostUse{{Host: "app", Roles: []string{"app"}, Samples: 9, CPURatio: 0.5, PSICPURatio: -1}}
	got, _ := wall(Result{Scenario: DefaultScenario()}, Verdict{Status: StatusCapReached}, one(s))
	if got != "nothing (hit the scenario's 600 cap)" {
		t.Error(got)
	}
}

func TestUnattributedHints(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*Step)
		want   string
	}{
		{"a pool", func(s *Step) { s.InFlightMean = 20 }, "in flight is flat at 20"},
		{"a limiter", func(s *Step) { s.Errors = map[string]int64{"status-429": 500} }, "status-429: a limiter?"},
	} {
		a, b := flat(95, 90), flat(105, 90)
		row.change(&a)
		row.change(&b)
		if got, _ := wall(Result{Scenario: DefaultScenario()}, Verdict{Status: StatusFound}, one(a, b)); !strings.Contains(got, row.want) {
			t.Errorf("%s: %q", row.name, got)
		}
	}
}

func TestSecondaryFindingsKeepTheirFigures(t *testing.T) {
	s := flat(100, 100)
	for name, cpu := range map[string]float64{"app": 0.97, "database": 0.94} {
		s.Hosts = append(s.Hosts, HostUse{Host: name, Roles: []string{name}, Samples: 9, CPURatio: cpu, PSICPURatio: -1})
	}
	got, findings := wall(Result{}, Verdict{Status: StatusFound}, one(s))
	if got != "app CPU at 97%" || len(findings) != 1 || findings[0].Sentence != "database CPU at 94%" || findings[0].Figures["cpuRatio"] != 0.94 {
		t.Errorf("%q, %+v", got, findings)
	}
}

// one is a reading of a run whose steps are all near the ceiling.
func one(steps ...Step) reading {
	return reading{steps: steps, history: steps, near: steps, around: steps}
}
