package plan

import (
	"slices"
	"strings"
	"testing"
)

const valid = `{"runId": "r1", "target": "http://10.77.0.14:80", "generator": "loadgen", "token": "t",
 "scenario": {"kind": "search", "floorRps": 10, "capRps": 600, "probeSeconds": 10, "probeDiscard": 3,
  "stepSeconds": 15, "stepDiscard": 4, "maxInFlight": 1000, "timeoutMs": 10000, "sloP95Ms": 500, "sloErrorRatio": 0.01,
  "seed": 1, "endpoints": [{"name": "work", "method": "GET", "path": "/work?ms=5", "weight": 1}]},
 "hosts": [{"name": "loadgen", "roles": ["loadgen"], "sampler": "10.77.0.15:9107", "cpus": 1, "memoryMiB": 512, "linkMbps": 0}]}`

func TestRead(t *testing.T) {
	for _, row := range []struct{ name, old, new, want string }{
		{"valid", "", "", ""},
		{"an unknown key", `"runId"`, `"colour": 1, "runId"`, "unknown field"},
		{"text after the end", `"linkMbps": 0}]}`, `"linkMbps": 0}]} {}`, "text after its end"},
		{"no run id", `"r1"`, `""`, "runId is empty"},
		{"a target without a scheme", "http://10.77.0.14:80", "10.77.0.14", "target"},
		{"https", "http://", "ftp://", "want http://"},
		{"a cap below the floor", `"capRps": 600`, `"capRps": 5`, "floor 10 and cap 5"},
		{"a step all discarded", `"stepDiscard": 4`, `"stepDiscard": 15`, "longer than its discard"},
		{"no in-flight cap", `"maxInFlight": 1000`, `"maxInFlight": 0`, "maxInFlight"},
		{"a path that would split the request", "/work?ms=5", "/work ms", "endpoints[0].path"},
		{"a negative weight", `"weight": 1`, `"weight": -1`, "endpoints[0].weight"},
		{"a sampler without a port", "10.77.0.15:9107", "10.77.0.15", "hosts[0].sampler"},
		{"a host without CPUs", `"cpus": 1`, `"cpus": 0`, "hosts[0].cpus"},
		{"no token", `"token": "t"`, `"token": ""`, "token is empty"},
		{"k6 without its binary", `"kind": "search"`, `"kind": "search", "engine": "k6"`, "k6.binary"},
		{"k6 over http/2", `"kind": "search"`, `"kind": "search", "engine": "k6", "protocol": "http/2"`, "can't be made to speak http/2"},
		{"k6", `"runId"`, `"k6": {"binary": "/usr/local/bin/k6", "version": "v2.2.0"}, "runId"`, ""},
		{"further generators without a secret", `"generator": "loadgen"`, `"generator": "loadgen", "further": [{"host": "loadgen", "orders": "10.77.0.15:9108"}]`, `by secret: both must be set`},
		{"a generator twice", `"generator": "loadgen"`, `"generator": "loadgen", "secret": "s", "further": [{"host": "loadgen", "orders": "10.77.0.15:9108"}]`, `further[0].host: "loadgen" is not one of the hosts, or a generator already`},
		{"a generator without a port", `"generator": "loadgen"`, `"generator": "loadgen", "secret": "s", "further": [{"host": "x", "orders": "10.77.0.15"}]`, `further[0].orders: "10.77.0.15": want HOST:PORT`},
		{"an unknown generator", `"generator": "loadgen"`, `"generator": "x"`, `"x" is not one of the hosts`},
	} {
		_, err := Read(strings.NewReader(strings.Replace(valid, row.old, row.new, 1)))
		switch {
		case row.want == "" && err != nil:
			t.Errorf("%s: %v", row.name, err)
		case row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)):
			t.Errorf("%s: %v, want %q", row.name, err, row.want)
		}
	}
}

func TestReadReportsAllProblemsAtOnce(t *testing.T) {
	_, err := Read(strings.NewReader(`{"target": "nowhere"}`))
	if err == nil || strings.Count(err.Error(), "\n") < 3 {
		t.Errorf("want several problems, got %v", err)
	}
}

// The shares follow what the generators may use of CPU.
func TestWeights(t *testing.T) {
	p := Plan{Generator: "a", Hosts: []Host{{Name: "b", CPUs: 0.25}, {Name: "a", CPUs: 2}, {Name: "c", CPUs: 1}}}
	if got := p.Weights(); got != nil {
		t.Errorf("one generator: %v, want none", got)
	}
	p.Further = []Further{{Host: "c"}, {Host: "b"}}
	if got := p.Weights(); !slices.Equal(got, []int{2000, 1000, 250}) {
		t.Errorf("%v, want 2000, 1000, 250", got)
	}
}
