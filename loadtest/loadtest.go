package loadtest

import (
	"fmt"

	"github.com/pulumi/pulumi-command/sdk/go/command/local"
	"github.com/pulumi/pulumi-random/sdk/v4/go/random"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"lab/infra"
	"lab/loadtest/analysis"
	"lab/loadtest/ledger"
	"lab/loadtest/plan"
	"lab/workloads"
)

// LoadTest is a load test to saturation of the workload as it now is.
type LoadTest struct {
	pulumi.ResourceState

	Ceiling       pulumi.StringOutput // req/s: "260", ">=600" or "none"
	CeilingStatus pulumi.StringOutput
	Wall          pulumi.StringOutput
	SLOCapacity   pulumi.StringOutput
	Result        pulumi.MapOutput // all figures, units in their names
	Table         pulumi.StringOutput
	InputsDigest  pulumi.StringOutput // of all that can move the ceiling
}

// New declares the load test. It runs again exactly when something that can move
// the ceiling changed, or the configuration's runId.
func New(ctx *pulumi.Context, c Config, in *infra.Infra, w *workloads.Workloads, opts ...pulumi.ResourceOption) (*LoadTest, error) {
	t := &LoadTest{}
	if err := ctx.RegisterComponentResource("lab:loadtest:LoadTest", "loadtest", t, opts...); err != nil {
		return nil, fmt.Errorf("declare the load test: %w", err)
	}
	token, err := random.NewRandomPassword(ctx, "sampler-token", &random.RandomPasswordArgs{
		Length: pulumi.Int(32), Special: pulumi.Bool(false),
	}, pulumi.Parent(t))
	if err != nil {
		return nil, err
	}
	runner, samplers, err := newSamplers(ctx, in, w, token.Result, t)
	if err != nil {
		return nil, err
	}
	generators := in.ByRole(infra.RoleLoadgen)
	generator := generators[0]
	p := plan.Plan{Target: w.LabURL, Scenario: c.Scenario, Generator: generator.Name}
	secret, ready, err := newFurther(ctx, generators[1:], &p, runner.SHA256, samplers, t)
	if err != nil {
		return nil, err
	}
	samplers = append(samplers, ready...)
	if c.Scenario.Engine == analysis.EngineK6 {
		p.K6 = &plan.K6{Binary: k6Binary, Version: c.K6.Version, Script: c.k6Script}
		installed, err := newK6(ctx, c.K6, generator, t)
		if err != nil {
			return nil, err
		}
		samplers = append(samplers, installed)
	}
	var sizes []ledger.Host
	for _, h := range in.Hosts {
		p.Hosts = append(p.Hosts, plan.Host{
			Name: h.Name, Roles: h.Roles, Sampler: samplerAddress(h.Address), CPUs: h.CPUs, MemoryMiB: h.MemoryMiB, LinkMbps: h.LinkMbps,
			Services: kinds(servicesOf(h, in, w)),
		})
		sizes = append(sizes, ledger.Host{Name: h.Name, CPUs: h.CPUs, MemoryMiB: h.MemoryMiB})
	}
	t.InputsDigest = pulumi.All(in.Digest, w.Digest, runner.SHA256).ApplyT(func(v []any) string {
		return infra.Digest(v, p, c.RunID)
	}).(pulumi.StringOutput)
	// An id for each run, not for each set of inputs: going back to an earlier
	// setting, or up after a destroy, is a new measurement and a new row.
	run, err := random.NewRandomId(ctx, "run", &random.RandomIdArgs{
		ByteLength: pulumi.Int(8), Keepers: pulumi.StringMap{"inputs": t.InputsDigest},
	}, pulumi.Parent(t))
	if err != nil {
		return nil, err
	}
	planned := pulumi.All(run.Hex, token.Result, secret).ApplyT(func(v []any) (string, error) {
		p.RunID, p.Token, p.Secret = v[0].(string), v[1].(string), v[2].(string)
		return planText(p)
	}).(pulumi.StringOutput)
	limit := maxLoad(c.Scenario)
	load, err := infra.NewScript(ctx, "load", &infra.ScriptArgs{
		Host:      generator,
		Script:    text("load.sh"),
		Variables: map[string]string{"max_seconds": fmt.Sprint(int(limit.Seconds()))},
		Secrets:   map[string]pulumi.StringInput{"run_id": run.Hex, "plan": planned},
		Triggers:  []pulumi.StringInput{run.Hex},
		Timeout:   limit,
	}, pulumi.Parent(t), pulumi.DependsOn(append(samplers, in, w)))
	if err != nil {
		return nil, err
	}
	// Nothing of a result is secret; that its script's input is would hide it.
	stdout := pulumi.Unsecret(load.Stdout).(pulumi.StringOutput)
	t.report(stdout)
	if err := t.record(ctx, c, stdout, run.Hex, sizes); err != nil {
		return nil, err
	}
	return t, ctx.RegisterResourceOutputs(t, pulumi.Map{"ceiling": t.Ceiling, "wall": t.Wall})
}

// newSamplers puts the runner on every host and starts its sampler, which also
// asks the services there: they have to be up.
func newSamplers(ctx *pulumi.Context, in *infra.Infra, w *workloads.Workloads, token pulumi.StringOutput, t *LoadTest) (*infra.Binary, []pulumi.Resource, error) {
	runners := map[string]*infra.Binary{}
	var samplers []pulumi.Resource
	for _, h := range in.Hosts {
		if runners[h.Arch] == nil {
			b, err := infra.NewBinary(ctx, "runner", h.Arch, t)
			if err != nil {
				return nil, nil, err
			}
			runners[h.Arch] = b
		}
		path, copied, err := runners[h.Arch].CopyTo(ctx, h, t)
		if err != nil {
			return nil, nil, err
		}
		script, variables := samplerScript(h, in)
		triggers := []pulumi.StringInput{runners[h.Arch].SHA256}
		if watchesCluster(h, in) {
			triggers = append(triggers, in.Cluster.Digest)
		}
		variables["binary"], variables["unit"], variables["orders"] = path, text("lab-sampler.service"), takesOrders(h, in)
		sampler, err := infra.NewScript(ctx, h.Name+"-sampler", &infra.ScriptArgs{
			Host:      h,
			Script:    script,
			Variables: variables,
			Secrets:   map[string]pulumi.StringInput{"token": token, "services": servicesText(servicesOf(h, in, w), in.Cache.Password)},
			Triggers:  triggers,
		}, pulumi.Parent(t), pulumi.DependsOn([]pulumi.Resource{copied, in, w}))
		if err != nil {
			return nil, nil, err
		}
		samplers = append(samplers, sampler)
	}
	return runners[in.ByRole(infra.RoleLoadgen)[0].Arch], samplers, nil
}

// takesOrders is "yes" for a host whose load generator another one leads.
func takesOrders(h *infra.Host, in *infra.Infra) string {
	if h.HasRole(infra.RoleLoadgen) && h != in.ByRole(infra.RoleLoadgen)[0] {
		return "yes"
	}
	return "no"
}

// servicesText is the sampler's list with the password that it needs.
func servicesText(services []plan.Service, redisPassword pulumi.StringOutput) pulumi.StringOutput {
	return redisPassword.ApplyT(func(password string) (string, error) {
		return withPassword(services, password)
	}).(pulumi.StringOutput)
}

// servicesOf are the services on a host, and how its sampler asks them. A cluster
// runs the workload in the place of the host with the role app; what one of its pods
// says behind a NodePort would be another pod's with each question, so there the
// cluster is asked instead.
func servicesOf(h *infra.Host, in *infra.Infra, w *workloads.Workloads) []plan.Service {
	var all []plan.Service
	for _, s := range []struct {
		role    string
		service plan.Service
	}{
		{infra.RoleDatabase, plan.Service{Kind: analysis.ServicePostgres, Address: in.Database.Socket, User: in.Database.Monitor, Database: in.Database.Name, Limit: postgresClients(in.Database.MaxConnections)}},
		{infra.RoleCache, plan.Service{Kind: analysis.ServiceRedis, Address: fmt.Sprintf("%s:%d", in.Cache.Host.Address, in.Cache.Port)}},
		{infra.RoleEdge, plan.Service{Kind: analysis.ServiceNginx, Address: in.Edge.StatusURL, Limit: float64(in.Edge.Clients)}},
		{infra.RoleApp, plan.Service{Kind: analysis.ServiceApp, Address: w.MetricsURL}},
	} {
		if h.HasRole(s.role) && (s.role != infra.RoleApp || in.Cluster == nil) {
			all = append(all, s.service)
		}
	}
	if watchesCluster(h, in) {
		all = append(all, plan.Service{Kind: analysis.ServiceKubernetes, Address: samplerKubeconfig, Namespace: w.Namespace})
	}
	return all
}

// report computes the verdict anew from the raw measurement that the state keeps.
func (t *LoadTest) report(stdout pulumi.StringOutput) {
	field := func(get func(measured) string) pulumi.StringOutput {
		return stdout.ApplyT(func(s string) (string, error) {
			m, err := read(s)
			return get(m), err
		}).(pulumi.StringOutput)
	}
	t.Ceiling = field(func(m measured) string { return m.verdict.Ceiling })
	t.CeilingStatus = field(func(m measured) string { return string(m.verdict.Status) })
	t.Wall = field(func(m measured) string { return m.verdict.Wall })
	t.SLOCapacity = field(func(m measured) string { return m.verdict.SLOCapacity })
	t.Result = stdout.ApplyT(func(s string) (map[string]any, error) {
		m, err := read(s)
		if err != nil {
			return nil, err
		}
		return m.figures()
	}).(pulumi.MapOutput)
}

// record appends the measurement to the stack's ledger, once.
func (t *LoadTest) record(ctx *pulumi.Context, c Config, stdout, run pulumi.StringOutput, sizes []ledger.Host) error {
	row := pulumi.All(stdout, t.InputsDigest).ApplyT(func(v []any) (string, error) {
		m, err := read(v[0].(string))
		if err != nil {
			return "", err
		}
		return m.row(ctx.Stack(), c, v[1].(string), sizes)
	}).(pulumi.StringOutput)
	recorded, err := local.NewCommand(ctx, "ledger", &local.CommandArgs{
		Create:   pulumi.Sprintf("%s ledger append results/%s.jsonl", infra.LabCLI, ctx.Stack()),
		Stdin:    row,
		Logging:  local.LoggingStderr,
		Triggers: pulumi.Array{run},
	}, pulumi.Parent(t))
	if err != nil {
		return err
	}
	t.Table = recorded.Stdout
	return nil
}
