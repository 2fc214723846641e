// Package plan is what the runner is told: the target, the scenario, and the
// hosts to watch.
package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"

	"lab/loadtest/analysis"
)

// Plan is one run.
type Plan struct {
	RunID     string            `json:"runId"`
	Target    string            `json:"target"` // base URL
	Scenario  analysis.Scenario `json:"scenario"`
	Hosts     []Host            `json:"hosts"`
	Generator string            `json:"generator"`         // name of the host that generates the load; of several, that leads
	Further   []Further         `json:"further,omitempty"` // the hosts that share the load with it
	Secret    string            `json:"secret,omitempty"`  // by which those know who may give them orders
	Token     string            `json:"token"`             // bearer token of the samplers
	K6        *K6               `json:"k6,omitempty"`      // of the engine k6
}

// Further is a load generator that takes orders from the one that leads.
type Further struct {
	Host   string `json:"host"`   // its name, one of the hosts
	Orders string `json:"orders"` // address and port
}

// Weights are the shares of the generators, the lead's first: what each may use of
// CPU, in thousandths. It is nil for a single one.
func (p Plan) Weights() []int {
	if len(p.Further) == 0 {
		return nil
	}
	weights := []int{p.weight(p.Generator)}
	for _, f := range p.Further {
		weights = append(weights, p.weight(f.Host))
	}
	return weights
}

func (p Plan) weight(host string) int {
	for _, h := range p.Hosts {
		if h.Name == host {
			return max(1, int(1000*h.CPUs+0.5))
		}
	}
	return 1
}

// K6 is the k6 that was installed on the generator.
type K6 struct {
	Binary  string `json:"binary"`
	Version string `json:"version"`
	Script  string `json:"script,omitempty"` // the text of a user's own script; "" for the scenario's endpoints
}

// Host is a machine to watch. Ratios are of CPUs and, where the host itself has
// no memory limit, of MemoryMiB.
type Host struct {
	Name      string   `json:"name"`
	Roles     []string `json:"roles"`
	Sampler   string   `json:"sampler"` // address and port
	CPUs      float64  `json:"cpus"`    // what it may use
	MemoryMiB int      `json:"memoryMiB"`
	LinkMbps  float64  `json:"linkMbps"` // 0 when unknown
	Services  []string `json:"services"` // that its sampler asks, by kind
}

// Service is one service on the sampler's own host and how to ask it.
type Service struct {
	Kind      string  `json:"kind"`                // one of the analysis' services
	Address   string  `json:"address"`             // postgres: the socket's folder; redis: HOST:PORT; nginx and app: a URL; kubernetes: a kubeconfig
	User      string  `json:"user,omitempty"`      // postgres
	Database  string  `json:"database,omitempty"`  // postgres
	Password  string  `json:"password,omitempty"`  // redis
	Limit     float64 `json:"limit,omitempty"`     // of clients: nginx does not tell it, postgres not while it is full
	Namespace string  `json:"namespace,omitempty"` // kubernetes: the workload's
}

// Read decodes a plan strictly and checks it.
func Read(r io.Reader) (Plan, error) {
	var p Plan
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return p, fmt.Errorf("read the plan: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return p, errors.New("read the plan: text after its end")
	}
	return p, p.Validate()
}

// Validate reports everything wrong with the plan.
func (p Plan) Validate() error {
	var errs []error
	if p.RunID == "" {
		errs = append(errs, errors.New("plan: runId is empty"))
	}
	if u, err := url.Parse(p.Target); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		errs = append(errs, fmt.Errorf("plan: target %q: want http://HOST[:PORT] or https://HOST[:PORT]", p.Target))
	}
	return errors.Join(slices.Concat(errs, p.validateScenario(), p.validateHosts())...)
}

func (p Plan) validateScenario() []error {
	var errs []error
	sc := p.Scenario
	if sc.Engine == analysis.EngineK6 && (p.K6 == nil || p.K6.Binary == "" || p.K6.Version == "") {
		errs = append(errs, errors.New("plan: scenario.engine is k6: k6.binary and k6.version must be set"))
	}
	if sc.Engine == analysis.EngineK6 && sc.Protocol == analysis.ProtocolHTTP2 {
		errs = append(errs, errors.New("plan: scenario.protocol: k6 can't be made to speak http/2"))
	}
	if sc.Kind != analysis.KindSearch && len(analysis.Schedule(sc)) == 0 {
		errs = append(errs, fmt.Errorf("plan: scenario.kind: %q offers nothing", sc.Kind))
	}
	for i, probe := range analysis.Schedule(sc) {
		if !(probe.OfferedRPS > 0 && probe.Seconds > probe.DiscardSeconds) {
			errs = append(errs, fmt.Errorf("plan: step %d: %g req/s over %g s", i, probe.OfferedRPS, probe.Seconds))
			break
		}
	}
	if sc.Kind != analysis.KindRamp && !(sc.FloorRPS > 0 && sc.CapRPS >= sc.FloorRPS) {
		errs = append(errs, fmt.Errorf("plan: floor %g and cap %g: want 0 < floor <= cap", sc.FloorRPS, sc.CapRPS))
	}
	if !(sc.ProbeSeconds > sc.ProbeDiscard && sc.StepSeconds > sc.StepDiscard) {
		errs = append(errs, errors.New("plan: a step must be longer than its discard"))
	}
	if sc.MaxInFlight < 1 || sc.TimeoutMs <= 0 || len(sc.Endpoints) == 0 {
		errs = append(errs, errors.New("plan: maxInFlight, timeoutMs and endpoints must be set"))
	}
	for i, endpoint := range sc.Endpoints {
		if !strings.HasPrefix(endpoint.Path, "/") || strings.ContainsAny(endpoint.Path+endpoint.Method, " \r\n") {
			errs = append(errs, fmt.Errorf("plan: scenario.endpoints[%d].path: %q: want /PATH[?QUERY] without spaces", i, endpoint.Path))
		}
		if endpoint.Weight < 0 {
			errs = append(errs, fmt.Errorf("plan: scenario.endpoints[%d].weight: %g is negative", i, endpoint.Weight))
		}
	}
	return errs
}

func (p Plan) validateHosts() []error {
	var errs []error
	seen := map[string]bool{}
	for i, h := range p.Hosts {
		if h.Name == "" || seen[h.Name] {
			errs = append(errs, fmt.Errorf("plan: hosts[%d].name: %q is empty or twice there", i, h.Name))
		}
		seen[h.Name] = true
		if _, _, err := net.SplitHostPort(h.Sampler); err != nil {
			errs = append(errs, fmt.Errorf("plan: hosts[%d].sampler: %q: want HOST:PORT", i, h.Sampler))
		}
		if !(h.CPUs > 0) {
			errs = append(errs, fmt.Errorf("plan: hosts[%d].cpus: %g: want what the host may use", i, h.CPUs))
		}
	}
	if len(p.Hosts) > 0 && p.Token == "" {
		errs = append(errs, errors.New("plan: token is empty"))
	}
	if p.Generator != "" && !seen[p.Generator] {
		errs = append(errs, fmt.Errorf("plan: generator: %q is not one of the hosts", p.Generator))
	}
	return slices.Concat(errs, p.validateFurther(seen))
}

func (p Plan) validateFurther(hosts map[string]bool) []error {
	if len(p.Further) == 0 {
		return nil
	}
	var errs []error
	if p.Secret == "" || p.Generator == "" {
		errs = append(errs, errors.New("plan: further generators take orders from generator, by secret: both must be set"))
	}
	if p.Scenario.Engine == analysis.EngineK6 {
		errs = append(errs, errors.New("plan: scenario.engine: k6 is of one load generator"))
	}
	if n := 1 + len(p.Further); p.Scenario.MaxInFlight < n {
		errs = append(errs, fmt.Errorf("plan: maxInFlight: %d is below one for each of %d generators", p.Scenario.MaxInFlight, n))
	}
	seen := map[string]bool{p.Generator: true}
	for i, f := range p.Further {
		if !hosts[f.Host] || seen[f.Host] {
			errs = append(errs, fmt.Errorf("plan: further[%d].host: %q is not one of the hosts, or a generator already", i, f.Host))
		}
		seen[f.Host] = true
		if _, _, err := net.SplitHostPort(f.Orders); err != nil {
			errs = append(errs, fmt.Errorf("plan: further[%d].orders: %q: want HOST:PORT", i, f.Orders))
		}
	}
	return errs
}
