package analysis

import (
	"fmt"
	"slices"
	"strings"
)

// serviceNames are the services as sentences call them.
var serviceNames = map[string]string{ServicePostgres: "database", ServiceRedis: "Redis", ServiceNginx: "nginx", ServiceApp: "app"}

// threadNames are what a service does all its work in.
var threadNames = map[string]string{ServiceRedis: "main thread", ServiceNginx: "worker"}

// limits are the walls that services say of themselves: connections, a single
// thread, a pool. On a host without CPU left, full connections and a full pool
// are a symptom, and only noted.
func limits(near []Step) []candidate {
	hot := map[string]bool{}
	for _, h := range hosts(near) {
		hot[h.Host] = cpuHot(h)
	}
	all := services(near)
	hotDatabase := slices.ContainsFunc(all, func(u ServiceUse) bool { return u.Service == ServicePostgres && hot[u.Host] })
	var found []candidate
	for _, u := range all {
		if u.Samples == 0 {
			continue
		}
		if u.Service == ServiceApp {
			found = append(found, fullPool(u, hot[u.Host])...)
			found = append(found, refusedApp(u, hotDatabase)...)
		} else {
			found = append(found, fullConnections(u, hot[u.Host])...)
		}
		if threadHot(u) {
			found = append(found, candidate{severityBusy, u.ThreadRatio, Finding{"thread",
				fmt.Sprintf("%s %s at %d%% of %s", serviceNames[u.Service], threadNames[u.Service], percent(u.ThreadRatio), oneThread(near, u.Host)), map[string]float64{"threadRatio": u.ThreadRatio}}})
		}
		found = append(found, noted(u, near)...)
	}
	return found
}

func fullConnections(u ServiceUse, hot bool) []candidate {
	severity := severityEvent
	if hot {
		severity = severityNote
	}
	most := max(u.Connections, u.ConnectionsMax) // a superuser may come on top of the limit
	figures := map[string]float64{"connections": u.Connections, "connectionsMax": u.ConnectionsMax, "connectionLimit": u.ConnectionLimit, "refused": float64(u.Refused)}
	switch {
	case connectionsFull(u), u.ConnectionLimit > 0 && most >= fullRatio*u.ConnectionLimit && u.Refused > 0:
		return []candidate{{severity, 1, Finding{"connections", fmt.Sprintf("%s connections at their limit (%.0f of %.0f)", serviceNames[u.Service], min(most, u.ConnectionLimit), u.ConnectionLimit), figures}}}
	case u.Refused > 0:
		return []candidate{{severity, 1, Finding{"refused", fmt.Sprintf("%s refused %d connections", serviceNames[u.Service], u.Refused), figures}}}
	}
	return nil
}

// refusedApp is the database as the app saw it: Postgres keeps no count of what it
// refuses. Where Postgres was seen to be full, that says more, and comes first.
func refusedApp(u ServiceUse, hotDatabase bool) []candidate {
	if u.Refused == 0 {
		return nil
	}
	severity := severityEvent
	if hotDatabase {
		severity = severityNote
	}
	return []candidate{{severity, 0.5, Finding{"refused", fmt.Sprintf("database refused %d connections of the app", u.Refused), map[string]float64{"refused": float64(u.Refused)}}}}
}

// oneThread is what a service's only thread may use, in words.
func oneThread(near []Step, host string) string {
	for _, s := range near {
		for _, h := range s.Hosts {
			if h.Host == host && h.CPUs > 0 && h.CPUs < 1 {
				return fmt.Sprintf("its host's %g CPUs", h.CPUs)
			}
		}
	}
	return "a core"
}

func connectionsFull(u ServiceUse) bool {
	return u.ConnectionLimit > 0 && u.Connections >= fullRatio*u.ConnectionLimit
}

func threadHot(u ServiceUse) bool { return threadNames[u.Service] != "" && u.ThreadRatio >= hotThread }

// fullPool is the app's own pool of database connections, with requests that wait
// for one.
func fullPool(u ServiceUse, hot bool) []candidate {
	if !connectionsFull(u) || u.Waiting < 1 {
		return nil
	}
	severity := severityLimit
	if hot {
		severity = severityNote
	}
	return []candidate{{severity, u.Waiting, Finding{"pool", fmt.Sprintf("app database pool full (%.0f of %.0f in use, %.0f waiting)", u.Connections, u.ConnectionLimit, u.Waiting),
		map[string]float64{"connections": u.Connections, "connectionLimit": u.ConnectionLimit, "waiting": u.Waiting}}}}
}

// noted is what a service says that helps to find the reason, and is no wall.
func noted(u ServiceUse, near []Step) []candidate {
	var found []candidate
	completedRPS := 0.0
	for _, s := range near {
		completedRPS += s.CompletedRPS() / float64(len(near))
	}
	if len(u.Statements) > 0 && u.Statements[0].ShareRatio >= topStatement && u.Statements[0].sessions(near[len(near)-1]) >= busySessions {
		top := u.Statements[0]
		found = append(found, candidate{severityNote, top.ShareRatio, Finding{"statement",
			fmt.Sprintf("one statement takes %d%% of the database's time (queryid %s, %.3g ms a call)", percent(top.ShareRatio), top.ID, top.MeanMs),
			map[string]float64{"shareRatio": top.ShareRatio, "meanMs": top.MeanMs, "calls": float64(top.Calls)}}})
	}
	for _, kind := range sortedKeys(u.Waits) {
		if n := u.Waits[kind]; n >= 1 && !slices.Contains(idleWaits, kind) {
			found = append(found, candidate{severityNote, n, Finding{"wait",
				fmt.Sprintf("%.3g database sessions wait for %s", n, kind), map[string]float64{"sessions": n}}})
		}
	}
	if u.HitRatio >= 0 && u.HitRatio < lowHitRatio && u.LookupsRPS >= manyLookups*completedRPS && u.Service == ServiceRedis {
		found = append(found, candidate{severityNote, 1 - u.HitRatio, Finding{"hit-ratio",
			fmt.Sprintf("%s answers %d%% of its lookups", serviceNames[u.Service], percent(u.HitRatio)), map[string]float64{"hitRatio": u.HitRatio}}})
	}
	return found
}

// sessions is the mean number of sessions that executed the statement in a step.
func (s Statement) sessions(in Step) float64 {
	return float64(s.Calls) * s.MeanMs / 1000 / in.Seconds
}

// idleWaits are what a session waits for that has nothing to do.
var idleWaits = strings.Fields("Client Activity Timeout Extension")
