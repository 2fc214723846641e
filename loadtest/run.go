package loadtest

import (
	"embed"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"time"

	"lab/loadtest/analysis"
	"lab/loadtest/engine"
	"lab/loadtest/k6"
	"lab/loadtest/ledger"
	"lab/loadtest/orders"
	"lab/loadtest/plan"
)

//go:embed files
var files embed.FS

// samplerPort is where the hosts' samplers listen.
const samplerPort = 9107

// text is an embedded file's text. That it exists is known at build time.
func text(name string) string {
	raw, err := files.ReadFile("files/" + name)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// ordersPort is where the further load generators take orders.
const ordersPort = 9108

func samplerAddress(address string) string {
	return net.JoinHostPort(address, strconv.Itoa(samplerPort))
}

func ordersAddress(address string) string {
	return net.JoinHostPort(address, strconv.Itoa(ordersPort))
}

// maxLoad bounds a run: its load, what an engine may take around every step, and
// five minutes for the rest. It ends a runner that hangs, and never one at work: each
// engine ends a step by itself that takes longer.
func maxLoad(sc analysis.Scenario) time.Duration {
	around := engine.Patience + orders.StartLead // which only several generators need
	if sc.Engine == analysis.EngineK6 {
		around = k6.Patience
	}
	around += time.Duration(sc.TimeoutMs) * time.Millisecond
	return time.Duration(analysis.MaxSeconds(sc))*time.Second + time.Duration(analysis.MaxSteps(sc))*around + 5*time.Minute
}

// planText is the plan that the runner reads.
func planText(p plan.Plan) (string, error) {
	raw, err := json.Marshal(p)
	return string(raw), err
}

// kinds are the services' names, for the plan.
func kinds(services []plan.Service) []string {
	all := []string{}
	for _, s := range services {
		all = append(all, s.Kind)
	}
	return all
}

// postgresClients is what is left of max_connections beside the superuser's reserve,
// which is Postgres' own default, and the sampler.
func postgresClients(maxConnections int) float64 {
	return float64(maxConnections - 3 - 1)
}

// withPassword is the list that a sampler reads; Redis alone needs the password.
func withPassword(services []plan.Service, redisPassword string) (string, error) {
	all := []plan.Service{}
	for _, s := range services {
		if s.Kind == analysis.ServiceRedis {
			s.Password = redisPassword
		}
		all = append(all, s)
	}
	raw, err := json.Marshal(all)
	return string(raw), err
}

// measured is a result with its verdict.
type measured struct {
	result  analysis.Result
	verdict analysis.Verdict
}

// read reads what the runner printed. Empty text, of a mock, is no measurement.
func read(stdout string) (measured, error) {
	var m measured
	if stdout == "" {
		m.verdict = analysis.Verdict{Status: analysis.StatusAborted, Ceiling: "none", SLOCapacity: "none", Wall: "none: not measured yet"}
		return m, nil
	}
	if err := json.Unmarshal([]byte(stdout), &m.result); err != nil {
		return m, fmt.Errorf("read the load test's result: %w", err)
	}
	if err := analysis.Validate(m.result); err != nil {
		return m, fmt.Errorf("the load test's result: %w", err)
	}
	m.verdict = analysis.Analyze(m.result)
	return m, nil
}

// figures is the verdict with all that was measured, as an output's object: lab
// analyze reads it as it reads a raw result.
func (m measured) figures() (map[string]any, error) {
	raw, err := json.Marshal(struct {
		analysis.Verdict
		analysis.Result
	}{m.verdict, m.result})
	if err != nil {
		return nil, err
	}
	var object map[string]any
	return object, json.Unmarshal(raw, &object)
}

// row is the measurement as a line of the ledger, with the raw result.
func (m measured) row(stack string, c Config, inputsDigest string, hosts []ledger.Host) (string, error) {
	result, err := json.Marshal(m.result)
	if err != nil {
		return "", err
	}
	raw, err := json.Marshal(ledger.Measured{Result: result, Row: ledger.Row{
		Time: m.result.Started, Stack: stack, Step: c.Step, RunID: m.result.RunID, InputsDigest: inputsDigest, Hosts: hosts,
		Row: analysis.Row(c.Step, m.verdict), Verdict: m.verdict, Scenario: m.result.Scenario, LoadSeconds: m.result.LoadSeconds,
	}})
	return string(raw), err
}
