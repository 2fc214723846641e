package infra

import (
	"fmt"

	"github.com/pulumi/pulumi-command/sdk/go/command/remote"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
)

// newPlannedHosts declares hosts of the kinds that can be previewed and checked
// but not yet brought up. They have no key, so nothing can run on them.
func newPlannedHosts(ctx *pulumi.Context, c Config, parent pulumi.Resource) ([]*Host, error) {
	var hosts []*Host
	for _, h := range c.Hosts {
		host, err := registerHost(ctx, h, parent)
		if err != nil {
			return nil, err
		}
		host.Connection = remote.ConnectionArgs{Host: pulumi.String(h.Address), User: pulumi.String("root")}.ToConnectionOutput()
		host.Digest = pulumi.String(Digest(h)).ToStringOutput()
		host.disk, host.identity = host.Digest, host.Digest
		if err := host.finish(ctx); err != nil {
			return nil, fmt.Errorf("declare host %s: %w", h.Name, err)
		}
		hosts = append(hosts, host)
	}
	return hosts, nil
}
