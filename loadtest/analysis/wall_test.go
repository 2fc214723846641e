package analysis

import (
	"fmt"
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
