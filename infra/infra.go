package infra

import (
	"fmt"

	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"lab/hops"
)

// Infra is the machines of a lab with the services on them. A resource that
// depends on it waits until all of them are ready; the endpoints' values alone
// do not wait.
type Infra struct {
	pulumi.ResourceState

	Hosts    []*Host // in the configuration's order
	Database DatabaseEndpoint
	Cache    CacheEndpoint
	Edge     *EdgeEndpoint
	Cluster  *ClusterEndpoint // nil when there is none
	// Planned tells that the hosts' kind can't be brought up yet: they are
	// declared and checked, the endpoints are where they will be, and no service,
	// workload or load test can be set up on them.
	Planned bool
	// Digest changes with everything here that can move the ceiling.
	Digest pulumi.StringOutput
}

// DatabaseEndpoint is how the workload reaches Postgres.
type DatabaseEndpoint struct {
	Host           *Host
	Port           int
	Name, User     string
	Password       pulumi.StringOutput // secret; letters and digits
	MaxConnections int
	Socket         string // folder of the server's socket on its host
	Monitor        string // role that may read statistics, for root on its host
}

// CacheEndpoint is how the workload reaches Redis.
type CacheEndpoint struct {
	Host     *Host
	Port     int
	Password pulumi.StringOutput // secret; letters and digits
}

// EdgeEndpoint is where requests enter the lab.
type EdgeEndpoint struct {
	Host   *Host
	Port   int
	URL    string // for the operator's computer
	LabURL string // for the other hosts

	Upstreams []hops.Upstream // none while the hosts are planned

	StatusURL string // stub_status, on its host
	Clients   int    // at most, at once: a proxied client takes two connections
}

// ByRole are the hosts with the role, in the configuration's order.
func (in *Infra) ByRole(role string) []*Host {
	var hosts []*Host
	for _, h := range in.Hosts {
		if h.HasRole(role) {
			hosts = append(hosts, h)
		}
	}
	return hosts
}

// New declares the hosts and services of a configuration that LoadConfig found
// no problem in. nodePort is the port of every node of a cluster that leads to the
// workload: where the edge sends; without a cluster it has no meaning.
func New(ctx *pulumi.Context, c Config, nodePort int, opts ...pulumi.ResourceOption) (*Infra, error) {
	in := &Infra{Planned: c.Kind() != KindNspawn}
	if in.Planned && !ctx.DryRun() {
		return nil, c.notAvailable()
	}
	if err := c.unpinned(ctx.Stack()); err != nil && !ctx.DryRun() {
		return nil, err
	}
	if err := ctx.RegisterComponentResource("lab:infra:Infra", "infra", in, opts...); err != nil {
		return nil, fmt.Errorf("declare the infrastructure: %w", err)
	}
	var err error
	if in.Hosts, err = newHosts(ctx, c, in); err != nil {
		return nil, err
	}
	for _, declare := range []func(*pulumi.Context, Config, *Infra) error{newCluster, newPostgres, newRedis} {
		if err := declare(ctx, c, in); err != nil {
			return nil, err
		}
	}
	if err := newEdge(ctx, c, in, nodePort); err != nil {
		return nil, err
	}
	digests := pulumi.StringArray{pulumi.String(Digest(c.Postgres, c.Redis, c.Edge, serviceFiles()))}
	if in.Cluster != nil {
		digests = append(digests, in.Cluster.Digest)
	}
	for _, h := range in.Hosts {
		digests = append(digests, h.Digest)
	}
	in.Digest = digests.ToStringArrayOutput().ApplyT(func(all []string) string { return Digest(all) }).(pulumi.StringOutput)
	return in, ctx.RegisterResourceOutputs(in, pulumi.Map{"digest": in.Digest})
}

// only is the host with a role that the configuration gives to exactly one.
func (in *Infra) only(role string) (*Host, error) {
	hosts := in.ByRole(role)
	if len(hosts) != 1 {
		return nil, fmt.Errorf("%d hosts have the role %s, want 1: was the configuration checked?", len(hosts), role)
	}
	return hosts[0], nil
}
