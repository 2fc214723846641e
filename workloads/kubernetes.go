package workloads

import (
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
)

// kubernetesPlugin is the version of Pulumi's Kubernetes plugin that the resources
// below are of. They are declared by their tokens, without the plugin's SDK: that has a
// type for everything Kubernetes has, and takes as long to compile as all else here
// together. tools/pulumi-kubernetes compares them with the plugin's schema.
const kubernetesPlugin = "4.25.0"

// access is a provider of Kubernetes resources: the way into one cluster.
type access struct{ pulumi.ProviderResourceState }

// newAccess declares the way into the cluster of a kubeconfig. The identifier names the
// cluster: as long as it stays, what is in the cluster stays, whatever the kubeconfig
// becomes; with another one all of it is made again.
func newAccess(ctx *pulumi.Context, name string, kubeconfig, identifier pulumi.StringInput, opts ...pulumi.ResourceOption) (*access, error) {
	a := &access{}
	return a, ctx.RegisterResource("pulumi:providers:kubernetes", name, pulumi.Map{
		"kubeconfig":        kubeconfig,
		"clusterIdentifier": identifier,
	}, a, append(opts, pulumi.Version(kubernetesPlugin))...)
}

// object is a resource that a cluster keeps.
type object struct{ pulumi.CustomResourceState }

func newNamespace(ctx *pulumi.Context, name string, labels map[string]string, opts ...pulumi.ResourceOption) (*object, error) {
	return newObject(ctx, "kubernetes:core/v1:Namespace", name, pulumi.Map{
		"apiVersion": pulumi.String("v1"),
		"kind":       pulumi.String("Namespace"),
		"metadata":   pulumi.Map{"name": pulumi.String(name), "labels": pulumi.ToStringMap(labels)},
	}, opts)
}

func newSecret(ctx *pulumi.Context, name, namespace string, data pulumi.StringMap, opts ...pulumi.ResourceOption) (*object, error) {
	return newObject(ctx, "kubernetes:core/v1:Secret", name, pulumi.Map{
		"apiVersion": pulumi.String("v1"),
		"kind":       pulumi.String("Secret"),
		"metadata":   pulumi.Map{"name": pulumi.String(name), "namespace": pulumi.String(namespace)},
		"type":       pulumi.String("Opaque"),
		"stringData": pulumi.ToSecret(data).(pulumi.StringMapOutput),
	}, append(opts, pulumi.AdditionalSecretOutputs([]string{"data", "stringData"})))
}

// newRelease declares a release of a Helm chart. The plugin does not wait for its pods:
// whoever does can say why one of them does not come up.
//
// Another chart is no new version of the same: what both name alike may be of fields that
// can't be changed (a Deployment's selector), so the old release goes before it.
func newRelease(ctx *pulumi.Context, name, namespace string, from helmChart, values pulumi.MapInput, seconds int, opts ...pulumi.ResourceOption) (*object, error) {
	args := pulumi.Map{
		"name":        pulumi.String(name),
		"namespace":   pulumi.String(namespace),
		"chart":       pulumi.String(from.chart),
		"description": pulumi.String(from.description()),
		"values":      values,
		"skipAwait":   pulumi.Bool(true),
		"timeout":     pulumi.Int(seconds), // of its hooks
		"compat":      pulumi.String("true"),
	}
	if from.version != "" {
		args["version"] = pulumi.String(from.version)
	}
	if from.repo != "" {
		args["repositoryOpts"] = pulumi.Map{"repo": pulumi.String(from.repo)}
	}
	opts = append(opts, pulumi.ReplaceOnChanges([]string{"chart", "repositoryOpts"}), pulumi.DeleteBeforeReplace(true))
	return newObject(ctx, "kubernetes:helm.sh/v3:Release", name, args, opts)
}

func newObject(ctx *pulumi.Context, token, name string, args pulumi.Map, opts []pulumi.ResourceOption) (*object, error) {
	o := &object{}
	return o, ctx.RegisterResource(token, name, args, o, append(opts, pulumi.Version(kubernetesPlugin))...)
}
