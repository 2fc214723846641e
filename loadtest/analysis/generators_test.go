package analysis

import (
	"strings"
	"testing"
)

// Of several generators the weak one is named, and none of them is ever the wall.
func TestSeveralGenerators(t *testing.T) {
	use := func(host string, cpu float64) HostUse {
		return HostUse{Host: host, Roles: []string{"loadgen"}, Samples: 16, CPUs: 1, CPURatio: cpu, PSICPURatio: -1, DiskRatio: -1, PSIIORatio: -1}
	}
	for _, row := range []struct {
		name        string
		first, last HostUse
		status      Status
		wall        string
	}{
		{"both have CPU left", use("loadgen", 0.5), use("loadgen2", 0.6), StatusFound, "app CPU at 97%"},
		{"the one that leads is weak", use("loadgen", 0.85), use("loadgen2", 0.6), StatusGeneratorLimited, "none: load generator loadgen CPU at 85%"},
		{"the other one is weak", use("loadgen", 0.5), use("loadgen2", 0.99), StatusGeneratorLimited, "none: load generator loadgen2 CPU at 99%"},
		{"both are weak", use("loadgen", 0.85), use("loadgen2", 0.9), StatusGeneratorLimited, "none: load generator loadgen CPU at 85%; load generator loadgen2 CPU at 90%"},
		{"the other one's link is full", use("loadgen", 0.5), func() HostUse {
			u := use("loadgen2", 0.2)
			u.NetMbps, u.LinkMbps = 90, 100
			return u
		}(), StatusGeneratorLimited, "none: load generator loadgen2 NIC at 90% of its link"},
	} {
		v := Analyze(ramp(100, func(s *Step) {
			s.Generators, s.Generator = []HostUse{row.first, row.last}, row.first
			s.Hosts = append(s.Hosts, row.first, row.last)
		}))
		if v.Status != row.status || v.Wall != row.wall {
			t.Errorf("%s: %s, %q; want %s, %q", row.name, v.Status, v.Wall, row.status, row.wall)
		}
		for _, f := range v.Findings {
			if strings.Contains(f.Sentence, "loadgen") {
				t.Errorf("%s: a generator is a finding: %s", row.name, f.Sentence)
			}
		}
	}
}

func TestTheLatestOfSeveralGeneratorsIsNotTakenForAll(t *testing.T) {
	v := Analyze(ramp(100, func(s *Step) {
		s.Generators, s.SchedLagP50Ms = []HostUse{s.Generator, {Host: "loadgen2", Samples: 16, CPURatio: 0.3}}, 30
	}))
	if want := "none: the latest load generator sent 30 ms late in the median"; v.Status != StatusGeneratorLimited || v.Wall != want {
		t.Errorf("%s, %q; want %q", v.Status, v.Wall, want)
	}
}

// How many generators a rate came from does not change what was offered: the rows
// compare.
func TestTheScenarioDigestKnowsNoGenerators(t *testing.T) {
	one, two := ramp(100, nil), ramp(100, nil)
	two.Generators = []Share{{"loadgen", 0.5}, {"loadgen2", 0.5}}
	if a, b := Analyze(one).ScenarioDigest, Analyze(two).ScenarioDigest; a != b {
		t.Errorf("digests %s and %s", a, b)
	}
}

// What a strained generator completes wanders, as if the target's capacity rose: a
// search that followed it went on to the end of its time.
func TestAWeakGeneratorBeginsNoRounds(t *testing.T) {
	for cpu, most := range map[float64]int{0.95: 0, 0.3: 9} {
		sc := DefaultScenario()
		sc.FloorRPS, sc.CapRPS, sc.WarmupSeconds, sc.Repeats = 20, 20_000, 0, 1
		capacity := 1000.0
		r := play(sc, 20_000, func(s *Step) {
			if s.Generator = (HostUse{Host: "loadgen", Samples: 10, CPUs: 0.1, CPURatio: cpu}); s.OfferedRPS > capacity {
				s.Completed, s.BacklogSlopeRPS, s.P95Ms = int64(capacity*s.Seconds), s.OfferedRPS-capacity, 4000
				capacity *= 1.12
			}
		})
		rounds := 0
		for i := range r.Steps[1:] {
			if r.Steps[i+1].Phase == PhaseBracket && r.Steps[i].Phase != PhaseBracket {
				rounds++
			}
		}
		v := Analyze(r)
		if weak := cpu > generatorCPU; weak != (v.Status == StatusGeneratorLimited) || weak != (rounds == 0) || rounds > most {
			t.Errorf("CPU %g: %s after %d further rounds in %.0f s", cpu, v.Status, rounds, r.LoadSeconds)
		}
	}
}
