package infra

import (
	"encoding/json"
	"fmt"

	"github.com/pulumi/pulumi-command/sdk/go/command/local"
	"github.com/pulumi/pulumi-command/sdk/go/command/remote"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"lab/build"
)

// Binary is a program of ours, built here for the architecture of some hosts.
type Binary struct {
	// SHA256 of the file, in hexadecimal.
	SHA256 pulumi.StringOutput

	name string
	path pulumi.StringOutput
}

// NewBinary builds a binary again when its sources have changed.
func NewBinary(ctx *pulumi.Context, name, arch string, parent pulumi.Resource) (*Binary, error) {
	root, err := build.Root()
	if err != nil {
		return nil, err
	}
	sources, err := build.SourceDigest(root, name)
	if err != nil {
		return nil, fmt.Errorf("declare the binary %s: %w", name, err)
	}
	made, err := local.NewCommand(ctx, name+"-"+arch, &local.CommandArgs{
		Create:   pulumi.Sprintf("%s build %s %s", LabCLI, name, arch),
		Logging:  local.LoggingStderr,
		Triggers: pulumi.Array{pulumi.String(sources)},
	}, pulumi.Parent(parent))
	if err != nil {
		return nil, err
	}
	return printed(made, name), nil
}

// printed is the binary that a command made and printed as JSON.
func printed(made *local.Command, name string) *Binary {
	field := func(get func(build.Binary) string) pulumi.StringOutput {
		return made.Stdout.ApplyT(func(stdout string) (string, error) {
			b, err := parseBinary(stdout)
			return get(b), err
		}).(pulumi.StringOutput)
	}
	return &Binary{
		SHA256: field(func(b build.Binary) string { return b.SHA256 }),
		name:   name,
		path:   field(func(b build.Binary) string { return b.Path }),
	}
}

func parseBinary(stdout string) (build.Binary, error) {
	var b build.Binary
	if stdout == "" { // an update's mock; the engine gives a real one
		return b, nil
	}
	if err := json.Unmarshal([]byte(stdout), &b); err != nil {
		return b, fmt.Errorf("read what lab build printed: %w", err)
	}
	return b, nil
}

// CopyTo copies the binary to a place on the host from which a script installs
// it: a running program can't be overwritten.
func (b *Binary) CopyTo(ctx *pulumi.Context, host *Host, parent pulumi.Resource) (path string, copied pulumi.Resource, err error) {
	return CopyFile(ctx, host, b.name, b.path, b.SHA256, parent)
}

// CopyFile copies a file of this computer to a place on the host, and again when
// its sum or the machine is another.
func CopyFile(ctx *pulumi.Context, host *Host, name string, local, sha256 pulumi.StringOutput, parent pulumi.Resource) (path string, copied pulumi.Resource, err error) {
	path = "/var/tmp/lab-" + name
	asset := local.ApplyT(func(p string) pulumi.AssetOrArchive { return pulumi.NewFileAsset(p) }).(pulumi.AssetOrArchiveOutput)
	copied, err = remote.NewCopyToRemote(ctx, host.Name+"-"+name, &remote.CopyToRemoteArgs{
		Connection: host.Connection,
		Source:     asset,
		RemotePath: pulumi.String(path),
		Triggers:   pulumi.Array{host.identity, sha256},
	}, pulumi.Parent(parent), pulumi.DependsOn(host.machine))
	return path, copied, err
}
