// Package loadtest declares the load test: what watches the hosts, what
// generates the load, and what becomes of the result.
package loadtest

import (
	"fmt"
	"strings"

	"lab/config"
	"lab/loadtest/analysis"
)

// Config is the section lab:loadtest.
type Config struct {
	Step     string            `json:"step"`  // the change's label in the table
	RunID    string            `json:"runId"` // a new one measures again without a change
	Scenario analysis.Scenario `json:"scenario"`
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

// LoadConfig reads the section, as JSON, over the defaults, and reports
// everything wrong with it.
func LoadConfig(raw []byte) (Config, []config.Problem) {
	c := Defaults()
	unread := config.Decode("loadtest", raw, &c)
	// Not before: what is decoded into a list keeps the fields of the elements that
	// are there, and an endpoint without a name would have a default's.
	if c.Scenario.Endpoints == nil {
		c.Scenario.Endpoints = readEndpoints()
	}
	var k config.Checker
	k.Add(strings.TrimSpace(c.Step) != "" && len(c.Step) <= 120, "loadtest.step", c.Step, "is not 1 to 120 characters", "name the change")
	check(&k, "loadtest.scenario", c.Scenario)
	for i := range c.Scenario.Endpoints {
		if e := &c.Scenario.Endpoints[i]; e.Method == "" {
			e.Method = "GET"
		}
	}
	return c, config.Merge(unread, k.Problems)
}

func check(k *config.Checker, path string, sc analysis.Scenario) {
	at := func(name string) string { return path + "." + name }
	k.OneOf(at("kind"), sc.Kind, []string{"search"})
	k.Add(sc.FloorRPS >= 1, at("floorRps"), sc.FloorRPS, "is below 1", "raise it")
	k.Add(sc.CapRPS >= sc.FloorRPS, at("capRps"), sc.CapRPS, fmt.Sprintf("is below floorRps (%g)", sc.FloorRPS), "raise it")
	k.Add(sc.CapRPS <= 100_000, at("capRps"), sc.CapRPS, "is above 100000", "lower it")
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
	for i, e := range sc.Endpoints {
		at := func(name string) string { return fmt.Sprintf("%s.endpoints[%d].%s", path, i, name) }
		k.Add(e.Name != "", at("name"), e.Name, "is empty", "name it")
		k.Add(strings.HasPrefix(e.Path, "/") && !strings.ContainsAny(e.Path, " \r\n"), at("path"), e.Path, "is no path", "write one that begins with /")
		k.Add(e.Weight > 0, at("weight"), e.Weight, "is not above 0", "raise it, or remove the endpoint")
		if e.Method != "" {
			k.OneOf(at("method"), e.Method, []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"})
		}
	}
}
