package infra

import (
	"fmt"
	"runtime"

	"github.com/pulumi/pulumi-command/sdk/go/command/local"
	"github.com/pulumi/pulumi-command/sdk/go/command/remote"
	"github.com/pulumi/pulumi-random/sdk/v4/go/random"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"lab/infra/nspawn"
)

const (
	stateDir = ".lab" // in the project's folder, where Pulumi runs the program and its commands
	// LabCLI is the companion command, as the stack's local commands call it.
	LabCLI = ".toolchain/bin/lab"
)

// ground is what the nspawn hosts of a stack share.
type ground struct {
	base, network *local.Command
	operatorKey   pulumi.StringOutput // private, PEM
	authorizedKey pulumi.StringOutput
}

// newNspawnHosts declares machines on this computer.
func newNspawnHosts(ctx *pulumi.Context, c Config, parent pulumi.Resource) ([]*Host, error) {
	g, err := newGround(ctx, c, parent)
	if err != nil {
		return nil, err
	}
	var hosts []*Host
	for i := range c.Hosts {
		host, err := newNspawnHost(ctx, c, i, g, parent)
		if err != nil {
			return nil, fmt.Errorf("declare host %s: %w", c.Hosts[i].Name, err)
		}
		hosts = append(hosts, host)
	}
	return hosts, nil
}

func newGround(ctx *pulumi.Context, c Config, parent pulumi.Resource) (*ground, error) {
	child := pulumi.Parent(parent)
	seed, err := random.NewRandomBytes(ctx, "operator-key", &random.RandomBytesArgs{Length: pulumi.Int(seedBytes)}, child)
	if err != nil {
		return nil, err
	}
	base, err := local.NewCommand(ctx, "base", &local.CommandArgs{
		Create:  pulumi.String(LabCLI + " base build"),
		Logging: local.LoggingStderr,
	}, child)
	if err != nil {
		return nil, err
	}
	spec := networkSpec(c, nspawn.NetworkIncarnation(stateDir, c.Network.Name))
	stdin, err := jsonText(spec)
	if err != nil {
		return nil, err
	}
	network, err := local.NewCommand(ctx, "network", &local.CommandArgs{
		Create:  pulumi.String(LabCLI + " network up"),
		Delete:  pulumi.String(LabCLI + " network down " + c.Network.Name),
		Stdin:   pulumi.String(stdin),
		Logging: local.LoggingStderr,
		// A changed forward is an update; another name or subnet is another network.
		Triggers: pulumi.Array{pulumi.String(Digest(spec.Name, spec.Subnet, spec.Gateway))},
	}, child, pulumi.DeleteBeforeReplace(true))
	if err != nil {
		return nil, err
	}
	return &ground{
		base: base, network: network,
		operatorKey:   seed.Base64.ApplyT(operatorKey).(pulumi.StringOutput),
		authorizedKey: seed.Base64.ApplyT(authorizedKey).(pulumi.StringOutput),
	}, nil
}

func newNspawnHost(ctx *pulumi.Context, c Config, i int, g *ground, parent pulumi.Resource) (*Host, error) {
	h := c.Hosts[i]
	h.Address, h.Arch = address(c.Network.Subnet, i), runtime.GOARCH
	host, err := registerHost(ctx, h, parent)
	if err != nil {
		return nil, err
	}
	host.URLHost = address(c.Network.Loopback, i)
	seed, err := random.NewRandomBytes(ctx, h.Name+"-host-key", &random.RandomBytesArgs{Length: pulumi.Int(seedBytes)}, pulumi.Parent(host))
	if err != nil {
		return nil, err
	}
	incarnation := nspawn.Incarnation(stateDir, c.Network.Name, h.Name)
	spec := pulumi.All(g.authorizedKey, seed.Base64).ApplyT(func(keys []any) (string, error) {
		return jsonText(machineSpec(c, i, incarnation, keys[0].(string), keys[1].(string)))
	}).(pulumi.StringOutput)
	hostPublic := pulumi.Unsecret(seed.Base64.ApplyT(hostKey)).(pulumi.StringOutput)
	// Caps, keys and peers are updates. Another base tree, name or address is
	// another machine with an empty disk, on which every script runs again.
	host.identity = pulumi.All(g.base.Stdout, hostPublic).ApplyT(func(v []any) string {
		return Digest(v[0], v[1], c.Network.Name, h.Name, h.Address)
	}).(pulumi.StringOutput)
	host.disk = g.base.Stdout.ApplyT(func(base string) string {
		return Digest(base, c.Network.Name, h.Name, h.Address)
	}).(pulumi.StringOutput)
	machine, err := local.NewCommand(ctx, h.Name, &local.CommandArgs{
		Create:   pulumi.String(LabCLI + " machine up"),
		Delete:   pulumi.Sprintf("%s machine down %s %s", LabCLI, c.Network.Name, h.Name),
		Stdin:    pulumi.ToSecret(spec).(pulumi.StringOutput),
		Logging:  local.LoggingStderr,
		Triggers: pulumi.Array{host.disk},
	}, pulumi.Parent(host), pulumi.DependsOn([]pulumi.Resource{g.base, g.network}), pulumi.DeleteBeforeReplace(true))
	if err != nil {
		return nil, err
	}
	host.machine = []pulumi.Resource{machine}
	host.Digest = g.base.Stdout.ApplyT(func(base string) string { return Digest(h, base) }).(pulumi.StringOutput)
	// Every default is written out, so that no plugin's own default shows as a
	// change (pulumi-command#447).
	host.Connection = remote.ConnectionArgs{
		Host: pulumi.String(host.URLHost), Port: pulumi.Float64(forwardedSSH), User: pulumi.String("root"),
		PrivateKey: pulumi.ToSecret(g.operatorKey).(pulumi.StringOutput), HostKey: hostPublic,
		DialErrorLimit: pulumi.Int(10), PerDialTimeout: pulumi.Int(15),
	}.ToConnectionOutput()
	return host, host.finish(ctx)
}
