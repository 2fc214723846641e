package infra

import (
	"fmt"

	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"lab/hops"
)

// Edge is nginx in front of the workload.
type Edge struct {
	pulumi.ResourceState
}

// newEdge declares the edge and sets in.Edge. nodePort is where the nodes of a
// cluster answer for the workload.
func newEdge(ctx *pulumi.Context, c Config, in *Infra, nodePort int) error {
	host, err := in.only(RoleEdge)
	if err != nil {
		return err
	}
	e := &Edge{}
	if err := ctx.RegisterComponentResource("lab:infra:Edge", "edge", e, pulumi.Parent(in)); err != nil {
		return fmt.Errorf("declare the edge: %w", err)
	}
	in.Edge = &EdgeEndpoint{
		Host: host, Port: edgePort, URL: edgeURL(host.URLHost, c.Kind()), LabURL: labURL(host.Address),
		StatusURL: fmt.Sprintf("http://127.0.0.1:%d/-/status", edgePort), Clients: c.Edge.Workers * c.Edge.WorkerConnections / 2,
	}
	if !in.Planned {
		if c.Cluster.Traefik {
			nodePort = traefikPort
		}
		upstreams, err := in.upstreams(nodePort)
		if err != nil {
			return err
		}
		in.Edge.Upstreams = upstreams
		var addresses []string
		for _, u := range upstreams {
			addresses = append(addresses, u.Address)
		}
		settings, err := edgeSettings(c.Edge, addresses)
		if err != nil {
			return err
		}
		_, err = NewScript(ctx, "edge", &ScriptArgs{
			Host:      host,
			Script:    File("edge.sh"),
			Variables: map[string]string{"address": host.Address, "settings": settings, "retries": tcpRetries(len(upstreams))},
		}, pulumi.Parent(e))
		if err != nil {
			return fmt.Errorf("declare the edge: %w", err)
		}
	}
	return ctx.RegisterResourceOutputs(e, pulumi.Map{"url": pulumi.String(in.Edge.URL)})
}

// upstreams are where the edge sends: every node that runs pods, or the host with
// the role app.
func (in *Infra) upstreams(nodePort int) ([]hops.Upstream, error) {
	if in.Cluster == nil {
		app, err := in.only(RoleApp)
		if err != nil {
			return nil, err
		}
		return []hops.Upstream{{Name: app.Name, Address: upstream(app.Address, appPort)}}, nil
	}
	var nodes []hops.Upstream
	for _, h := range in.Cluster.Nodes {
		nodes = append(nodes, hops.Upstream{Name: h.Name, Address: upstream(h.Address, nodePort)})
	}
	return nodes, nil
}
