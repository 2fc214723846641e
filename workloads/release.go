package workloads

import (
	"fmt"
	"strings"
	"time"

	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"lab/infra"
)

// newOnCluster declares the release of a chart, what it needs in the cluster, and that
// it is up; it sets w.Digest.
func (w *Workloads) newOnCluster(ctx *pulumi.Context, c Config, chart helmChart, in *infra.Infra) error {
	stopped, err := w.stopUnits(ctx, in)
	if err != nil {
		return err
	}
	way, err := newAccess(ctx, "kubernetes", in.Cluster.Kubeconfig, in.Cluster.Identity, pulumi.Parent(w))
	if err != nil {
		return err
	}
	// What is in the cluster goes with it: no destroy waits for one that is gone.
	child := pulumi.Composite(pulumi.Parent(w), pulumi.Provider(way), in.Cluster.Server.GoneWith())
	namespace, err := newNamespace(ctx, c.Namespace, c.namespaceLabels(), child, pulumi.DependsOn([]pulumi.Resource{in}))
	if err != nil {
		return err
	}
	data := pulumi.StringMap{"DATABASE_URL": databaseURL(in), "REDIS_URL": redisURL(in)}
	secret, err := newSecret(ctx, secretName, c.Namespace, data, child, pulumi.DependsOn([]pulumi.Resource{namespace}))
	if err != nil {
		return err
	}
	credentials := pulumi.Unsecret(data.ToStringMapOutput().ApplyT(func(known map[string]string) string { return infra.Digest(known) })).(pulumi.StringOutput)
	before := append(stopped, in, namespace, secret)
	values, digest := pulumi.ToMap(c.Chart.Values), pulumi.String(infra.Digest(c.Chart, chart.identity(), c.PodSecurity)).ToStringOutput()
	if !c.Chart.Given() {
		image, err := NewImage(ctx, "image", &ImageArgs{Nodes: in.Cluster.Nodes, Distribution: in.Cluster.Distribution, Cluster: in}, pulumi.Parent(w))
		if err != nil {
			return err
		}
		plain := withIngress(c.values(image.Repository, image.Tag, image.Archs), in.Cluster.Ingress)
		digest = image.Digest.ApplyT(func(image string) string { return infra.Digest(plain, chart.identity(), c.PodSecurity, image) }).(pulumi.StringOutput)
		values = pulumi.ToMap(plain)
		values["rollout"] = pulumi.StringMap{"image": image.Digest, "credentials": credentials}
		before = append(before, image.Imported...)
	}
	release, err := newRelease(ctx, ReleaseName, c.Namespace, chart, values, c.releaseSeconds(), child, pulumi.DependsOn(before))
	if err != nil {
		return err
	}
	w.Digest = digest
	return w.released(ctx, c, in, release, digest, credentials)
}

// released waits for what the chart declares, and says why it does not come up.
func (w *Workloads) released(ctx *pulumi.Context, c Config, in *infra.Infra, release pulumi.Resource, triggers ...pulumi.StringInput) error {
	answer := "200" // of the demo workload's readiness; another chart's is not known
	if c.Chart.Given() {
		answer = "any"
	}
	_, err := infra.NewScript(ctx, "released", &infra.ScriptArgs{
		Host:   in.Cluster.Server,
		Script: text("released.sh"),
		Variables: map[string]string{
			"kubectl": in.Cluster.Kubectl, "namespace": c.Namespace, "seconds": fmt.Sprint(c.releaseSeconds()),
			"url": strings.TrimSuffix(w.LabURL, "/") + c.ReadyPath(), "answer": answer,
		},
		Triggers: triggers,
		Timeout:  time.Duration(c.releaseSeconds()+120) * time.Second,
	}, pulumi.Parent(w), pulumi.DependsOn([]pulumi.Resource{in, release}))
	return err
}
