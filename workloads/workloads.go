package workloads

import (
	"embed"
	"errors"
	"fmt"

	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"lab/infra"
)

//go:embed files
var files embed.FS

// appPort is where the web part listens and the edge sends.
const appPort = 8080

// ErrNotOnCluster tells that the workload's release can't be installed yet.
var ErrNotOnCluster = errors.New("install the workload on a cluster: not available yet, nothing was touched; set infra.cluster.distribution to none, or preview")

// Workloads is the demo workload on its host.
type Workloads struct {
	pulumi.ResourceState

	URL    string // for the operator's computer
	LabURL string // for the other hosts

	MetricsURL string // on the hosts with the role app
	Namespace  string // of the pods, on a cluster
	// Digest changes with everything here that can move the ceiling.
	Digest pulumi.StringOutput
}

// New declares the workload on the host with the role app.
func New(ctx *pulumi.Context, c Config, in *infra.Infra, opts ...pulumi.ResourceOption) (*Workloads, error) {
	if c.Chart.Given() {
		return nil, fmt.Errorf("install the chart %s: not available yet; remove workloads.chart", c.Chart.source())
	}
	w := &Workloads{Namespace: c.Namespace, URL: in.Edge.URL, LabURL: in.Edge.LabURL, MetricsURL: fmt.Sprintf("http://127.0.0.1:%d/metrics", appPort)}
	if err := ctx.RegisterComponentResource("lab:workloads:Workloads", "workloads", w, opts...); err != nil {
		return nil, fmt.Errorf("declare the workload: %w", err)
	}
	host := in.ByRole(infra.RoleApp)[0]
	binary, err := infra.NewBinary(ctx, "app", host.Arch, w)
	if err != nil {
		return nil, err
	}
	path, copied, err := binary.CopyTo(ctx, host, w)
	if err != nil {
		return nil, fmt.Errorf("declare the workload: %w", err)
	}
	unit, environment := text("lab-app@.service"), c.environment(appPort)
	_, err = infra.NewScript(ctx, "app-units", &infra.ScriptArgs{
		Host:   host,
		Script: text("app.sh"),
		Variables: map[string]string{
			"binary": path, "unit": unit, "environment": environment, "edge_url": w.LabURL,
		},
		Secrets: map[string]pulumi.StringInput{
			"database_url": pulumi.Sprintf("postgres://%s:%s@%s:%d/%s?sslmode=disable", in.Database.User, in.Database.Password, in.Database.Host.Address, in.Database.Port, in.Database.Name),
			"redis_url":    pulumi.Sprintf("redis://:%s@%s:%d/0", in.Cache.Password, in.Cache.Host.Address, in.Cache.Port),
		},
		Triggers: []pulumi.StringInput{binary.SHA256},
	}, pulumi.Parent(w), pulumi.DependsOn([]pulumi.Resource{in, copied}))
	if err != nil {
		return nil, fmt.Errorf("declare the workload: %w", err)
	}
	w.Digest = binary.SHA256.ApplyT(func(sha256 string) string { return infra.Digest(sha256, unit, environment) }).(pulumi.StringOutput)
	return w, ctx.RegisterResourceOutputs(w, pulumi.Map{"url": pulumi.String(w.URL), "digest": w.Digest})
}

// text is an embedded file's text. That it exists is known at build time.
func text(name string) string {
	raw, err := files.ReadFile("files/" + name)
	if err != nil {
		panic(err)
	}
	return string(raw)
}
