package infra

import (
	"fmt"

	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
)

// Edge is nginx in front of the workload.
type Edge struct {
	pulumi.ResourceState
}

// newEdge declares the edge and sets in.Edge.
func newEdge(ctx *pulumi.Context, c Config, in *Infra) error {
	host, err := in.only(RoleEdge)
	if err != nil {
		return err
	}
	e := &Edge{}
	if err := ctx.RegisterComponentResource("lab:infra:Edge", "edge", e, pulumi.Parent(in)); err != nil {
		return fmt.Errorf("declare the edge: %w", err)
	}
	in.Edge = &EdgeEndpoint{
		host, edgePort, edgeURL(host.URLHost, c.Kind()), labURL(host.Address),
		fmt.Sprintf("http://127.0.0.1:%d/-/status", edgePort), c.Edge.Workers * c.Edge.WorkerConnections / 2,
	}
	if !in.Planned {
		app, err := in.only(RoleApp)
		if err != nil {
			return err
		}
		settings, err := edgeSettings(c.Edge, app.Address)
		if err != nil {
			return err
		}
		_, err = NewScript(ctx, "edge", &ScriptArgs{
			Host:      host,
			Script:    File("edge.sh"),
			Variables: map[string]string{"address": host.Address, "settings": settings},
		}, pulumi.Parent(e))
		if err != nil {
			return fmt.Errorf("declare the edge: %w", err)
		}
	}
	return ctx.RegisterResourceOutputs(e, pulumi.Map{"url": pulumi.String(in.Edge.URL)})
}
