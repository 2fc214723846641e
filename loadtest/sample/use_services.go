package sample

import (
	"cmp"
	"maps"
	"slices"

	"lab/loadtest/analysis"
	"lab/loadtest/plan"
)

const statementsShown = 5

// UseServices is what each service of a host did over readings in their order. A
// service that is declared and answered less than twice has no samples. A cluster
// has a use of its own.
func UseServices(h plan.Host, readings []Counters) []analysis.ServiceUse {
	var all []analysis.ServiceUse
	for _, kind := range h.Services {
		if kind == analysis.ServiceKubernetes {
			continue
		}
		var answers []ServiceCounters
		var at []Counters
		for _, r := range readings {
			if i := slices.IndexFunc(r.Services, func(c ServiceCounters) bool { return c.Kind == kind }); i >= 0 {
				answers, at = append(answers, r.Services[i]), append(at, r)
			}
		}
		u := analysis.ServiceUse{Host: h.Name, Service: kind, ThreadRatio: -1, HitRatio: -1}
		if len(answers) > 1 {
			fill(&u, answers, Elapsed(at[0], at[len(at)-1]), oneThread(h))
		}
		all = append(all, u)
	}
	return all
}

// oneThread is the CPU that a single thread may use, in CPUs: a core, or less in a
// host that is capped below one.
func oneThread(h plan.Host) float64 {
	if h.CPUs <= 0 {
		return 1
	}
	return min(1, h.CPUs)
}

// fill means what a service has now, and takes what it counts from the first to
// the last answer. A total that fell began anew in between: it counts from 0.
// They are so many seconds apart, and one thread may use so many CPUs.
func fill(u *analysis.ServiceUse, answers []ServiceCounters, seconds, threadCPUs float64) {
	first, last := answers[0], answers[len(answers)-1]
	u.Samples, u.ConnectionLimit, u.Waits = len(answers), last.Limit, map[string]float64{}
	for _, c := range answers {
		u.Connections += c.Connections / float64(len(answers))
		u.ConnectionsMax = max(u.ConnectionsMax, c.Connections)
	}
	u.Refused = int64(grown(float64(first.Refused), float64(last.Refused)))
	told := slices.DeleteFunc(slices.Clone(answers), func(c ServiceCounters) bool { return c.Full })
	if len(told) == 0 {
		return // it was full all the time: nothing else is known
	}
	for _, c := range told {
		u.Waiting += c.Waiting / float64(len(told))
		for kind, sessions := range c.Waits {
			u.Waits[kind] += sessions / float64(len(told))
		}
	}
	first, last = told[0], told[len(told)-1]
	for name, now := range last.Threads {
		if seconds > 0 {
			u.ThreadRatio = max(u.ThreadRatio, grown(first.Threads[name], now)/(seconds*threadCPUs))
		}
	}
	if hits, misses := grown(first.Hits, last.Hits), grown(first.Misses, last.Misses); hits+misses > 0 {
		u.HitRatio = hits / (hits + misses)
		if seconds > 0 {
			u.LookupsRPS = (hits + misses) / seconds
		}
	}
	u.Statements = statementsBetween(first, last)
}

func grown(before, after float64) float64 {
	if after < before {
		return after
	}
	return after - before
}

// statementsBetween are the statements that took the most time in between. One
// that entered the list in between counts from 0, its time before being less.
func statementsBetween(first, last ServiceCounters) []analysis.Statement {
	before := map[string]StatementCounter{}
	for _, s := range first.Statements {
		before[s.ID] = s
	}
	total := grown(first.StatementsMs, last.StatementsMs)
	took := map[string]float64{}
	var all []analysis.Statement
	for _, s := range last.Statements {
		b := before[s.ID]
		ms, calls := grown(b.Ms, s.Ms), int64(grown(float64(b.Calls), float64(s.Calls)))
		if calls == 0 || total <= 0 {
			continue
		}
		took[s.ID] = ms
		all = append(all, analysis.Statement{ID: s.ID, Calls: calls, MeanMs: ms / float64(calls), ShareRatio: min(1, ms/total)})
	}
	slices.SortStableFunc(all, func(a, b analysis.Statement) int { return cmp.Compare(took[b.ID], took[a.ID]) })
	return all[:min(len(all), statementsShown)]
}

// Foreign is the share of each physical machine's CPU that none of the given
// hosts used, by boot id: (busy − Σ hosts) ÷ all, between two readings of every
// host. A host that is a machine of its own has none: what it uses is its own.
func Foreign(first, last map[string]Counters) map[string]float64 {
	busy, own, seen := map[string]float64{}, map[string]float64{}, map[string]int{}
	for _, host := range slices.Sorted(maps.Keys(last)) {
		a, b := first[host], last[host]
		machine := b.MachineSeconds - a.MachineSeconds
		if b.Kind != "cgroup" || b.Boot == "" || a.Boot != b.Boot || machine <= 0 || b.CPUSeconds < a.CPUSeconds {
			continue
		}
		busy[b.Boot] += (b.BusySeconds - a.BusySeconds) / machine
		own[b.Boot] += (b.CPUSeconds - a.CPUSeconds) / machine
		seen[b.Boot]++
	}
	foreign := map[string]float64{}
	for boot, n := range seen {
		foreign[boot] = max(0, busy[boot]/float64(n)-own[boot])
	}
	return foreign
}
