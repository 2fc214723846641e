package infra

import (
	"fmt"
	"slices"

	"github.com/pulumi/pulumi-command/sdk/go/command/remote"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
)

// Host is one machine of the lab, whatever its kind. It embeds a component: a
// resource that depends on it waits for the machine.
type Host struct {
	pulumi.ResourceState

	Name, Kind string
	Roles      []string
	Arch       string  // as Go names it: amd64, arm64
	Address    string  // that the other hosts dial
	URLHost    string  // by which the operator's computer reaches it
	CPUs       float64 // of nspawn hosts: a cap
	MemoryMiB  int
	LinkMbps   float64 // 0: unknown

	// Connection is the way in by SSH, with the pinned host key.
	Connection remote.ConnectionOutput
	// Digest changes with everything of the host that can move the ceiling.
	Digest pulumi.StringOutput

	disk     pulumi.StringOutput // another one is another machine
	identity pulumi.StringOutput // of the disk with its host key
	machine  []pulumi.Resource   // what a script on the host has to wait for
}

// HasRole tells whether the host holds the role.
func (h *Host) HasRole(role string) bool { return slices.Contains(h.Roles, role) }

// GoneWith leaves the deletion of a resource out when the host's machine goes too, so
// that a destroy needs no host that answers.
func (h *Host) GoneWith() pulumi.ResourceOption {
	if len(h.machine) > 0 {
		return pulumi.DeletedWith(h.machine[0])
	}
	return pulumi.DeletedWith(h)
}

// newHosts declares the hosts, in the configuration's order, as children of
// parent. All hosts of a stack are of one kind, which the configuration checks.
func newHosts(ctx *pulumi.Context, c Config, parent pulumi.Resource) ([]*Host, error) {
	if c.Kind() == KindNspawn {
		return newNspawnHosts(ctx, c, parent)
	}
	return newPlannedHosts(ctx, c, parent)
}

// registerHost registers the component of a host and fills in what is known of
// any kind from the configuration.
func registerHost(ctx *pulumi.Context, h HostConfig, parent pulumi.Resource) (*Host, error) {
	host := &Host{
		Name: h.Name, Kind: h.Kind, Roles: h.Roles, Arch: h.Arch, Address: h.Address, URLHost: h.Address,
		CPUs: h.CPUs, MemoryMiB: h.MemoryMiB, LinkMbps: h.LinkMbps,
	}
	if err := ctx.RegisterComponentResource("lab:infra:Host", h.Name, host, pulumi.Parent(parent)); err != nil {
		return nil, fmt.Errorf("declare host %s: %w", h.Name, err)
	}
	return host, nil
}

// finish ends the component's registration.
func (h *Host) finish(ctx *pulumi.Context) error {
	return ctx.RegisterResourceOutputs(h, pulumi.Map{
		"address": pulumi.String(h.Address),
		"arch":    pulumi.String(h.Arch),
		"digest":  h.Digest,
	})
}
