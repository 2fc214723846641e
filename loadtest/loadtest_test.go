package loadtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"lab/config/configtest"
	"lab/infra"
	"lab/loadtest/analysis"
	"lab/loadtest/ledger"
	"lab/loadtest/plan"
	"lab/workloads"
)

// mocks answers as the plugins do, and keeps what was declared.
type mocks struct {
	mu       sync.Mutex
	preview  bool
	sha256   string // of the runner
	result   string // standard output of the load
	declared []pulumi.MockResourceArgs
}

func (m *mocks) NewResource(args pulumi.MockResourceArgs) (string, resource.PropertyMap, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.declared = append(m.declared, args)
	out := args.Inputs.Copy()
	switch {
	case args.TypeToken == "random:index/randomBytes:RandomBytes":
		out["base64"] = resource.MakeSecret(resource.NewProperty("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="))
	case args.TypeToken == "random:index/randomPassword:RandomPassword":
		out["result"] = resource.MakeSecret(resource.NewProperty("topsecret-" + args.Name))
	case args.TypeToken == "random:index/randomId:RandomId":
		out["hex"] = resource.NewProperty("run-of-" + args.Inputs["keepers"].ObjectValue()["inputs"].StringValue())
	// The rest is known in a preview too, as on a stack that is up: the SDK's mock
	// monitor can't read a secret that is unknown ("malformed RPC secret").
	case args.Name == "cluster-ca":
		out["stdout"] = resource.NewProperty(strings.Repeat("0a", 32))
	case args.Name == "cluster-kubeconfig":
		out["stdout"] = resource.MakeSecret(resource.NewProperty(clusterKubeconfig))
	case m.preview && (args.Name == "load" || args.Name == "ledger"):
	case args.Name == "load":
		out["stdout"] = resource.NewProperty(m.result)
	case args.Name == "ledger":
		out["stdout"] = resource.NewProperty("| the table |")
	case args.TypeToken == "command:local:Command":
		out["stdout"] = resource.NewProperty(fmt.Sprintf(`{"path":".lab/build/runner-amd64","sha256":%q}`, m.sha256))
	}
	return args.Name + "-id", out, nil
}

func (m *mocks) Call(pulumi.MockCallArgs) (resource.PropertyMap, error) { return nil, nil }

// declare runs the stages of the stack local's single machine, and gives the known outputs as text.
func declare(t *testing.T, c Config, m *mocks, change func(*infra.Config, *workloads.Config)) map[string]string {
	t.Helper()
	machines, problems := infra.LoadConfig(configtest.SingleMachine(t))
	work, more := workloads.LoadConfig(configtest.Section(t, "local", "lab:workloads"), workloads.Lab{MaxConnections: machines.Postgres.MaxConnections})
	if problems = append(problems, more...); len(problems) > 0 {
		t.Fatal(problems)
	}
	change(&machines, &work)
	var mu sync.Mutex
	known := map[string]string{}
	err := pulumi.RunErr(func(ctx *pulumi.Context) error {
		in, err := infra.New(ctx, machines, work.NodePort)
		if err != nil {
			return err
		}
		w, err := workloads.New(ctx, work, in)
		if err != nil {
			return err
		}
		test, err := New(ctx, c, in, w)
		if err != nil {
			return err
		}
		for name, output := range map[string]pulumi.Output{
			"ceiling": test.Ceiling, "ceilingStatus": test.CeilingStatus, "wall": test.Wall, "sloCapacity": test.SLOCapacity,
			"result": test.Result, "table": test.Table, "inputsDigest": test.InputsDigest,
		} {
			ctx.Export(name, output.ApplyT(func(v any) any {
				mu.Lock()
				defer mu.Unlock()
				known[name] = fmt.Sprint(v)
				return v
			}))
		}
		return nil
	}, pulumi.WithMocks("lab", "test", m), func(info *pulumi.RunInfo) { info.DryRun = m.preview })
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	return known
}

func unchanged(*infra.Config, *workloads.Config) {}

// tree is what hangs on the component.
func (m *mocks) tree() []string {
	var lines []string
	for _, d := range m.declared {
		if parent := d.RegisterRPC.GetParent(); strings.Contains(parent, "lab:loadtest:LoadTest") {
			lines = append(lines, strings.ReplaceAll(d.TypeToken+" "+d.Name, "arm64", "amd64"))
		}
	}
	slices.Sort(lines)
	return lines
}

func (m *mocks) find(t *testing.T, name string) pulumi.MockResourceArgs {
	t.Helper()
	for _, d := range m.declared {
		if d.Name == name {
			return d
		}
	}
	t.Fatalf("%s was not declared", name)
	return pulumi.MockResourceArgs{}
}

// stdin is the standard input of a script, which has to be secret.
func (m *mocks) stdin(t *testing.T, name string) string {
	t.Helper()
	in := m.find(t, name).Inputs["stdin"]
	if !in.IsSecret() {
		t.Fatalf("%s: standard input is not secret", name)
	}
	return in.SecretValue().Element.StringValue()
}

// holds is the result of a run that reached a cap of 20 req/s.
func holds(t *testing.T) string {
	t.Helper()
	sc := Defaults().Scenario
	sc.CapRPS, sc.Endpoints = 20, readEndpoints()
	host := analysis.HostUse{Host: "app", Roles: []string{"app"}, Samples: 10, CPUs: 0.4, CPURatio: 0.2, PSICPURatio: -1, DiskRatio: -1, PSIIORatio: -1}
	generator := host
	generator.Host, generator.Roles = "loadgen", []string{"loadgen"}
	r := analysis.Result{Version: 1, RunID: "r1", Started: "2026-11-30T12:00:00Z", LoadSeconds: 30, Engine: "builtin", Target: "http://10.77.0.14:80", Scenario: sc}
	for _, rate := range []float64{10, 15, 20} {
		n := int64(rate * 10)
		r.Steps = append(r.Steps, analysis.Step{
			Phase: "bracket", OfferedRPS: rate, Seconds: 10, Arrivals: n, Completed: n, P50Ms: 4, P95Ms: 8, P99Ms: 9, SendP95Ms: 8, MeanMs: 4, InFlightMean: rate * 0.004,
			Hosts: []analysis.HostUse{host, generator}, Generator: generator,
		})
	}
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestPreviewAndUpdateDeclareTheSame(t *testing.T) {
	preview, up := &mocks{preview: true}, &mocks{sha256: "s1", result: holds(t)}
	declare(t, stackConfig(t), preview, unchanged)
	got := declare(t, stackConfig(t), up, unchanged)
	want := []string{"command:local:Command ledger", "command:local:Command runner-amd64", "command:remote:Command load", "random:index/randomId:RandomId run", "random:index/randomPassword:RandomPassword sampler-token"}
	for _, h := range []string{"app", "cache", "database", "edge", "loadgen"} {
		want = append(want, "command:remote:Command "+h+"-sampler", "command:remote:CopyToRemote "+h+"-runner")
	}
	slices.Sort(want)
	for name, m := range map[string]*mocks{"preview": preview, "update": up} {
		if diff := cmp.Diff(want, m.tree()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if got["ceiling"] != ">=20" || got["ceilingStatus"] != "cap-reached" || !strings.HasPrefix(got["wall"], "nothing") || got["table"] != "| the table |" {
		t.Errorf("outputs %v", got)
	}
	if !strings.Contains(got["result"], "ceilingRps:20") {
		t.Errorf("result %s has no ceilingRps", got["result"])
	}
}

func TestAPreviewKnowsNoOutputOfTheLoadAndDoesNotFail(t *testing.T) {
	known := declare(t, stackConfig(t), &mocks{preview: true, sha256: "s1"}, unchanged)
	delete(known, "inputsDigest")
	if len(known) > 0 {
		t.Errorf("known before anything ran: %v", known)
	}
}

func TestAnUpdateWhoseMockOmitsTheOutputsPrintsNoNumber(t *testing.T) {
	if known := declare(t, stackConfig(t), &mocks{}, unchanged); known["ceiling"] != "none" {
		t.Errorf("ceiling %q, want none", known["ceiling"])
	}
}

func TestTheTokenIsOnlyInSecretStandardInput(t *testing.T) {
	m := &mocks{sha256: "s1", result: holds(t)}
	known := declare(t, stackConfig(t), m, unchanged)
	for _, name := range []string{"load", "app-sampler", "loadgen-sampler"} {
		if !strings.Contains(m.stdin(t, name), "topsecret-sampler-token") {
			t.Errorf("%s does not get the token", name)
		}
	}
	for _, d := range m.declared {
		for key, value := range d.Inputs {
			if key != "stdin" && strings.Contains(fmt.Sprint(value), "topsecret-sampler-token") {
				t.Errorf("%s shows the token in %s", d.Name, key)
			}
		}
	}
	for name, value := range known {
		if strings.Contains(value, "topsecret") {
			t.Errorf("the output %s shows a secret", name)
		}
	}
}

// What the program hands over is what the runner takes.
func TestThePlanOfTheStackIsValid(t *testing.T) {
	m := &mocks{sha256: "s1", result: holds(t)}
	known := declare(t, stackConfig(t), m, unchanged)
	_, rest, ok := strings.Cut(m.stdin(t, "load"), "\nplan='")
	text, _, closed := strings.Cut(rest, "'\n")
	if !ok || !closed {
		t.Fatal("the script has no plan")
	}
	p, err := plan.Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if p.Target != "http://10.77.0.14:80" || p.Generator != "loadgen" || len(p.Hosts) != 5 || p.Hosts[0].Sampler != "10.77.0.11:9107" || p.Hosts[0].CPUs != 0.2 {
		t.Errorf("plan %+v", p)
	}
	if p.RunID == "" || known["inputsDigest"] == "" {
		t.Errorf("run %q of inputs %q", p.RunID, known["inputsDigest"])
	}
}

func TestTheLedgerGetsTheRow(t *testing.T) {
	c, m := stackConfig(t), &mocks{sha256: "s1", result: holds(t)}
	known := declare(t, c, m, unchanged)
	recorded := m.find(t, "ledger")
	in := recorded.Inputs["stdin"]
	if in.IsSecret() {
		in = in.SecretValue().Element
	}
	var measured ledger.Measured
	if err := json.Unmarshal([]byte(in.StringValue()), &measured); err != nil {
		t.Fatal(err)
	}
	row := measured.Row
	var r analysis.Result
	if err := json.Unmarshal(measured.Result, &r); err != nil || r.RunID != row.RunID || len(r.Steps) == 0 {
		t.Errorf("the raw result of run %q has %d steps: %v", r.RunID, len(r.Steps), err)
	}
	if row.Stack != "test" || row.Step != c.Step || row.RunID != "r1" || row.InputsDigest != known["inputsDigest"] || row.Row.Ceiling != ">=20" || len(row.Hosts) != 5 || row.Hosts[0].CPUs != 0.2 {
		t.Errorf("row %+v", row)
	}
	if got := recorded.Inputs["create"].StringValue(); got != ".toolchain/bin/lab ledger append results/test.jsonl" {
		t.Errorf("the ledger runs %q", got)
	}
}

// The load runs again exactly when something that can move the ceiling changed.
func TestTheLoadRunsAgainExactlyWhenItHasTo(t *testing.T) {
	type change struct {
		name     string
		again    bool
		sha256   string
		loadtest func(*Config)
		rest     func(*infra.Config, *workloads.Config)
	}
	look := func(ch change) (digest, triggers string) {
		c, m := stackConfig(t), &mocks{sha256: "s1", result: holds(t)}
		if ch.sha256 != "" {
			m.sha256 = ch.sha256
		}
		if ch.loadtest != nil {
			ch.loadtest(&c)
		}
		if ch.rest == nil {
			ch.rest = unchanged
		}
		digest = declare(t, c, m, ch.rest)["inputsDigest"]
		return digest, fmt.Sprint(m.find(t, "load").Inputs["triggers"])
	}
	digest, triggers := look(change{})
	for _, ch := range []change{
		{name: "nothing"},
		{name: "the step's label", loadtest: func(c *Config) { c.Step = "another" }},
		{name: "runId", again: true, loadtest: func(c *Config) { c.RunID = "2" }},
		{name: "the scenario's cap", again: true, loadtest: func(c *Config) { c.Scenario.CapRPS = 300 }},
		{name: "an endpoint", again: true, loadtest: func(c *Config) { c.Scenario.Endpoints[0].Weight = 3 }},
		{name: "the runner", again: true, sha256: "s2"},
		{name: "a host's cap", again: true, rest: func(c *infra.Config, _ *workloads.Config) { c.Hosts[0].CPUs = 0.25 }},
		{name: "a service's setting", again: true, rest: func(c *infra.Config, _ *workloads.Config) { c.Postgres.MaxConnections = 50 }},
		{name: "a knob of the workload", again: true, rest: func(_ *infra.Config, c *workloads.Config) { c.ConnMaxAgeSeconds = 30 }},
	} {
		if d, tr := look(ch); (d != digest) != ch.again || (tr != triggers) != ch.again {
			t.Errorf("%s changed: inputs digest changed %v, triggers changed %v, want both %v", ch.name, d != digest, tr != triggers, ch.again)
		}
	}
}
