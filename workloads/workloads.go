package workloads

import (
	"embed"
	"fmt"

	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"lab/build"
	"lab/infra"
)

//go:embed files
var files embed.FS

// appPort is where the web part listens and the edge sends.
const appPort = 8080

// Workloads is what runs on the lab: the demo workload on its host, or on a cluster
// the release of its chart or of another one.
type Workloads struct {
	pulumi.ResourceState

	URL    string // for the operator's computer
	LabURL string // for the other hosts

	MetricsURL string // on the hosts with the role app
	Namespace  string // of the pods, on a cluster
	// Digest changes with everything here that can move the ceiling.
	Digest pulumi.StringOutput
}

// New declares the workload where it runs: on the cluster, or without one on the host
// with the role app. That a chart is not there is an error before anything is declared.
func New(ctx *pulumi.Context, c Config, in *infra.Infra, opts ...pulumi.ResourceOption) (*Workloads, error) {
	root, err := build.Root()
	if err != nil {
		return nil, err
	}
	chart, err := c.helmChart(root)
	if err != nil {
		return nil, err
	}
	w := &Workloads{Namespace: c.Namespace, URL: in.Edge.URL, LabURL: in.Edge.LabURL, MetricsURL: fmt.Sprintf("http://127.0.0.1:%d/metrics", appPort)}
	if c.Chart.URL != "" {
		w.LabURL = c.Chart.URL
	}
	if err := ctx.RegisterComponentResource("lab:workloads:Workloads", "workloads", w, opts...); err != nil {
		return nil, fmt.Errorf("declare the workload: %w", err)
	}
	if in.Cluster == nil {
		err = w.newUnits(ctx, c, in)
	} else {
		err = w.newOnCluster(ctx, c, chart, in)
	}
	if err != nil {
		return nil, fmt.Errorf("declare the workload: %w", err)
	}
	return w, ctx.RegisterResourceOutputs(w, pulumi.Map{"url": pulumi.String(w.URL), "digest": w.Digest})
}

// databaseURL and redisURL are where the workload's data is; secret.
func databaseURL(in *infra.Infra) pulumi.StringOutput {
	return pulumi.Sprintf("postgres://%s:%s@%s:%d/%s?sslmode=disable", in.Database.User, in.Database.Password, in.Database.Host.Address, in.Database.Port, in.Database.Name)
}

func redisURL(in *infra.Infra) pulumi.StringOutput {
	return pulumi.Sprintf("redis://:%s@%s:%d/0", in.Cache.Password, in.Cache.Host.Address, in.Cache.Port)
}

// text is an embedded file's text. That it exists is known at build time.
func text(name string) string {
	raw, err := files.ReadFile("files/" + name)
	if err != nil {
		panic(err)
	}
	return string(raw)
}
