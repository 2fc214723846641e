package workloads

import (
	"encoding/json"
	"fmt"

	"github.com/pulumi/pulumi-command/sdk/go/command/local"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"lab/build"
	"lab/infra"
)

// ImageArgs are the inputs of an image.
type ImageArgs struct {
	Nodes        []*infra.Host   // each gets the image of its architecture
	Distribution string          // of Kubernetes on them: k3s or labkube
	Cluster      pulumi.Resource // that the nodes are of; it is ready before they import
}

// Image is the demo workload's image on every node of a cluster, made without
// Docker and brought there without a registry.
type Image struct {
	pulumi.ResourceState

	Repository, Tag string
	Archs           []string // of the nodes, each once, in their order
	// Digest changes with what the image holds, for any of the architectures.
	Digest pulumi.StringOutput
	// Imported has a resource for every node, which has the image then. What needs all
	// of them names these: a component's children are known to the SDK only once it has
	// begun to register them.
	Imported []pulumi.Resource
}

// NewImage makes the image for each architecture of the nodes, and has every node
// import it: now, and by itself whenever it starts.
func NewImage(ctx *pulumi.Context, name string, args *ImageArgs, opts ...pulumi.ResourceOption) (*Image, error) {
	root, err := build.Root()
	if err != nil {
		return nil, err
	}
	image := &Image{}
	if image.Repository, image.Tag, err = build.ImageReference(root, "app"); err != nil {
		return nil, fmt.Errorf("declare the image: %w", err)
	}
	if err := ctx.RegisterComponentResource("lab:workloads:Image", name, image, opts...); err != nil {
		return nil, fmt.Errorf("declare the image: %w", err)
	}
	made := map[string]archive{}
	var digests pulumi.StringArray
	for _, node := range args.Nodes {
		if _, ok := made[node.Arch]; ok {
			continue
		}
		a, err := newArchive(ctx, name+"-"+node.Arch, node.Arch, image)
		if err != nil {
			return nil, fmt.Errorf("declare the image: %w", err)
		}
		made[node.Arch] = a
		image.Archs = append(image.Archs, node.Arch)
		digests = append(digests, a.digest)
	}
	for _, node := range args.Nodes {
		if err := image.bringTo(ctx, node, args, made[node.Arch]); err != nil {
			return nil, fmt.Errorf("declare the image on %s: %w", node.Name, err)
		}
	}
	image.Digest = digests.ToStringArrayOutput().ApplyT(func(all []string) string { return infra.Digest(all) }).(pulumi.StringOutput)
	return image, ctx.RegisterResourceOutputs(image, pulumi.Map{
		"reference": pulumi.String(image.Repository + ":" + image.Tag), "digest": image.Digest,
	})
}

// archive is the image for one architecture.
type archive struct{ path, sha256, digest pulumi.StringOutput }

// newArchive makes it again when the sources have changed.
func newArchive(ctx *pulumi.Context, name, arch string, image *Image) (archive, error) {
	made, err := local.NewCommand(ctx, name, &local.CommandArgs{
		Create:   pulumi.Sprintf("%s image app %s", infra.LabCLI, arch),
		Logging:  local.LoggingStderr,
		Triggers: pulumi.Array{pulumi.String(image.Tag)},
	}, pulumi.Parent(image))
	if err != nil {
		return archive{}, err
	}
	field := func(get func(build.Image) string) pulumi.StringOutput {
		return made.Stdout.ApplyT(func(stdout string) (string, error) {
			i, err := parseImage(stdout)
			return get(i), err
		}).(pulumi.StringOutput)
	}
	return archive{
		path:   field(func(i build.Image) string { return i.Path }),
		sha256: field(func(i build.Image) string { return i.SHA256 }),
		digest: field(func(i build.Image) string { return i.Digest }),
	}, nil
}

func parseImage(stdout string) (build.Image, error) {
	var i build.Image
	if stdout == "" { // an update's mock; the engine gives a real one
		return i, nil
	}
	if err := json.Unmarshal([]byte(stdout), &i); err != nil {
		return i, fmt.Errorf("read what lab image printed: %w", err)
	}
	return i, nil
}

// bringTo has a node import the image.
func (image *Image) bringTo(ctx *pulumi.Context, node *infra.Host, args *ImageArgs, a archive) error {
	path, copied, err := infra.CopyFile(ctx, node, "image-app", a.path, a.sha256, image)
	if err != nil {
		return err
	}
	imported, err := infra.NewScript(ctx, node.Name+"-image", &infra.ScriptArgs{
		Host:   node,
		Script: text("image.sh"),
		Variables: map[string]string{
			"archive": path, "distribution": args.Distribution, "reference": image.Repository + ":" + image.Tag,
		},
		Triggers: []pulumi.StringInput{a.sha256},
	}, pulumi.Parent(image), pulumi.DependsOn([]pulumi.Resource{args.Cluster, copied}))
	image.Imported = append(image.Imported, imported)
	return err
}
