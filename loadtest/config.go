// Package loadtest declares the load test: what watches the hosts, what
// generates the load, and what becomes of the result.
package loadtest

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"lab/config"
	"lab/loadtest/analysis"
)

const maxRPS = 100_000

// Config is the section lab:loadtest.
type Config struct {
	Step  string `json:"step"`  // the change's label in the table
	RunID string `json:"runId"` // a new one measures again without a change
	// SingleStep is the label of the row that make up measures before the stack's
	// own, when the stack is new: without the cluster, on the host with the role app.
	SingleStep string            `json:"singleStep"`
	Scenario   analysis.Scenario `json:"scenario"`
	K6         K6Config          `json:"k6"` // of the engine k6

	k6Script string // text of scenario.k6.script
}

// Defaults is the configuration that a stack's own is laid over. Its endpoints
// are set only where the stack names none: see readEndpoints.
func Defaults() Config {
	return Config{Step: "first measurement", Scenario: analysis.DefaultScenario()}
}

// readEndpoints are the workload's public reads, all as likely.
func readEndpoints() []analysis.Endpoint {
	var all []analysis.Endpoint
	for _, name := range []string{"items", "latest", "popular", "tags", "item"} {
		all = append(all, analysis.Endpoint{Name: name, Path: "/api/" + name, Weight: 1})
	}
	return all
}

// Lab is what the rest of the configuration gives the load test to fit in.
type Lab struct {
	Generators int  // hosts that share the load
	Single     bool // there is a host for the workload without the cluster, and one for the cluster
}

// LoadConfig reads the section, as JSON, over the defaults, and reports
// everything wrong with it.
func LoadConfig(raw []byte, lab Lab) (Config, []config.Problem) {
	c := Defaults()
	unread := config.Decode("loadtest", raw, &c)
	// Not before: what is decoded into a list keeps the fields of the elements that
	// are there, and an endpoint without a name would have a default's.
	if c.Scenario.Endpoints == nil {
		c.Scenario.Endpoints = readEndpoints()
	}
	var k config.Checker
	k.Add(strings.TrimSpace(c.Step) != "" && len(c.Step) <= 120, "loadtest.step", c.Step, "is not 1 to 120 characters", "name the change")
	k.Add(len(c.SingleStep) <= 120, "loadtest.singleStep", c.SingleStep, "is above 120 characters", "shorten it")
	k.Add(c.SingleStep == "" || lab.Single, "loadtest.singleStep", c.SingleStep, "is given, but no host has the role app, or none the role server", "remove it, or declare both hosts,")
	check(&k, "loadtest.scenario", c.Scenario)
	checkK6(&k, &c)
	checkGenerators(&k, c.Scenario, lab.Generators)
	for i := range c.Scenario.Endpoints {
		if e := &c.Scenario.Endpoints[i]; e.Method == "" {
			e.Method = "GET"
		}
	}
	return c, config.Merge(unread, k.Problems)
}

// checkGenerators checks what several load generators have to share.
func checkGenerators(k *config.Checker, sc analysis.Scenario, generators int) {
	if generators < 2 {
		return
	}
	holders := fmt.Sprintf("%d hosts have the role loadgen", generators)
	k.Add(sc.Engine != analysis.EngineK6, "loadtest.scenario.engine", sc.Engine, "runs on one host, but "+holders, "give the role to one, or use the engine builtin,")
	k.Add(sc.MaxInFlight >= generators, "loadtest.scenario.maxInFlight", sc.MaxInFlight, "is below one for each generator: "+holders, "raise it")
}

func check(k *config.Checker, path string, sc analysis.Scenario) {
	at := func(name string) string { return path + "." + name }
	k.OneOf(at("kind"), sc.Kind, []string{analysis.KindSearch, analysis.KindBreakpoint, analysis.KindRamp, analysis.KindUntilSLO, analysis.KindSteady})
	k.OneOf(at("engine"), sc.Engine, []string{analysis.EngineBuiltin, analysis.EngineK6})
	k.OneOf(at("protocol"), sc.Protocol, []string{analysis.ProtocolHTTP1, analysis.ProtocolHTTP2})
	k.Add(sc.KeepAlive || sc.Protocol != analysis.ProtocolHTTP2, at("keepAlive"), sc.KeepAlive, "is false with http/2, whose requests share connections", "set protocol to http/1.1")
	checkRates(k, path, sc)
	k.Within(at("repeats"), sc.Repeats, 1, 9, "the median of so many runs is the ceiling")
	const rule, fix = "is outside 0 to 600", "set the seconds that the target needs, 0 for none"
	k.Add(sc.WarmupSeconds >= 0 && sc.WarmupSeconds <= 600, at("warmupSeconds"), sc.WarmupSeconds, rule, fix)
	k.Add(sc.SettleSeconds >= 0 && sc.SettleSeconds <= 600, at("settleSeconds"), sc.SettleSeconds, rule, fix)
	for _, part := range []struct {
		name              string
		seconds, discards float64
	}{{"probe", sc.ProbeSeconds, sc.ProbeDiscard}, {"step", sc.StepSeconds, sc.StepDiscard}} {
		k.Add(part.discards >= 0, at(part.name+"Discard"), part.discards, "is below 0", "raise it")
		k.Add(part.seconds >= part.discards+2, at(part.name+"Seconds"), part.seconds,
			fmt.Sprintf("leaves less than 2 s after %sDiscard (%g)", part.name, part.discards), "raise it")
		k.Add(part.seconds <= 600, at(part.name+"Seconds"), part.seconds, "is above 600", "lower it")
	}
	k.Within(at("stepArrivals"), sc.StepArrivals, 100, 1_000_000, "counting noise of 10 % at 100 arrivals, 1 % at 10,000")
	k.Within(at("maxInFlight"), sc.MaxInFlight, 1, 100_000, "one connection each")
	k.Add(sc.TimeoutMs >= 100, at("timeoutMs"), sc.TimeoutMs, "is below 100", "raise it")
	k.Add(sc.SLOP95Ms > 0, at("sloP95Ms"), sc.SLOP95Ms, "is not above 0", "set the latency you promise")
	k.Add(sc.SLOErrorRatio >= 0 && sc.SLOErrorRatio < 1, at("sloErrorRatio"), sc.SLOErrorRatio, "is outside 0 to 1", "set a ratio such as 0.01")
	k.Add(len(sc.Endpoints) > 0, at("endpoints"), len(sc.Endpoints), "endpoints are too few", "name at least one")
	checkEndpoints(k, path, sc.Endpoints)
}

// checkRates checks what a kind offers.
func checkRates(k *config.Checker, path string, sc analysis.Scenario) {
	at := func(name string) string { return path + "." + name }
	if sc.Kind == analysis.KindRamp {
		k.Add(len(sc.Stages) > 0, at("stages"), len(sc.Stages), "stages are too few for a ramp", "name at least one: {rps: 50, seconds: 60}")
	} else {
		k.Add(len(sc.Stages) == 0, at("stages"), len(sc.Stages), "stages are there, but kind is "+sc.Kind, "set kind to ramp, or remove them")
	}
	for i, stage := range sc.Stages {
		k.Add(stage.RPS >= 1 && stage.RPS <= maxRPS, fmt.Sprintf("%s.stages[%d].rps", path, i), stage.RPS, "is outside 1 to 100000", "set the rate of this stage")
		k.Add(stage.Seconds >= 2 && stage.Seconds <= 3600, fmt.Sprintf("%s.stages[%d].seconds", path, i), stage.Seconds, "is outside 2 to 3600", "set the length of this stage")
	}
	k.Add(sc.FloorRPS >= 1, at("floorRps"), sc.FloorRPS, "is below 1", "raise it")
	k.Add(sc.CapRPS >= sc.FloorRPS, at("capRps"), sc.CapRPS, fmt.Sprintf("is below floorRps (%g)", sc.FloorRPS), "raise it")
	k.Add(sc.CapRPS <= maxRPS, at("capRps"), sc.CapRPS, "is above 100000", "lower it")
	if sc.Kind == analysis.KindBreakpoint || sc.Kind == analysis.KindUntilSLO {
		steps := (sc.CapRPS - sc.FloorRPS) / sc.RiseRPS
		k.Add(sc.RiseRPS > 0 && steps <= 1000, at("riseRps"), sc.RiseRPS, fmt.Sprintf("does not lead from %g to %g req/s in at most 1000 steps", sc.FloorRPS, sc.CapRPS), "raise it")
	}
}

// hopByHop are headers that the engine sets itself, or that end at a connection.
var hopByHop = []string{"Connection", "Content-Length", "Host", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// secretHeaders would be kept in the ledger with the rest of the scenario.
var secretHeaders = []string{"Authorization", "Cookie", "Proxy-Authorization"}

func checkEndpoints(k *config.Checker, path string, endpoints []analysis.Endpoint) {
	for i, e := range endpoints {
		at := func(name string) string { return fmt.Sprintf("%s.endpoints[%d].%s", path, i, name) }
		k.Add(e.Name != "", at("name"), e.Name, "is empty", "name it")
		k.Add(strings.HasPrefix(e.Path, "/") && !strings.ContainsAny(e.Path, " \r\n"), at("path"), e.Path, "is no path", "write one that begins with /")
		k.Add(e.Weight > 0, at("weight"), e.Weight, "is not above 0", "raise it, or remove the endpoint")
		if e.Method != "" {
			k.OneOf(at("method"), e.Method, []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"})
		}
		for _, name := range slices.Sorted(maps.Keys(e.Headers)) {
			value, canonical := e.Headers[name], http.CanonicalHeaderKey(name)
			here := at("headers." + name)
			k.Add(httpguts.ValidHeaderFieldName(name) && httpguts.ValidHeaderFieldValue(value), here, value, "is no header of HTTP", "use letters, digits and - in its name, and one line of text")
			k.Add(!slices.Contains(hopByHop, canonical), here, value, "is set by the engine", "remove it")
			k.Add(!slices.Contains(secretHeaders, canonical), here, "…", "would be kept in the ledger, in clear text", "give the load test a path that needs no secret")
		}
	}
}
