package infra

import (
	"fmt"
	"maps"
	"slices"

	"github.com/pulumi/pulumi-command/sdk/go/command/local"
	"github.com/pulumi/pulumi-random/sdk/v4/go/random"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"lab/kubeconfig"
)

// Cluster is Kubernetes on the hosts of the roles server and agent.
type Cluster struct {
	pulumi.ResourceState
}

// ClusterEndpoint is how the workload reaches the cluster.
type ClusterEndpoint struct {
	// Kubeconfig is the administrator's, for the operator's computer. It is known
	// once every node is Ready.
	Kubeconfig pulumi.StringOutput // secret
	// Identity stays as long as the cluster does, whatever becomes of its nodes.
	Identity     pulumi.StringOutput
	Distribution string
	Nodes        []*Host // that run pods: servers, then agents
	Server       *Host   // the first one
	Ingress      string  // class of the Ingress by which the edge reaches the workload; "": by its NodePort
	Kubectl      string  // command on Server: kubectl as the administrator
	Digest       pulumi.StringOutput
}

// clusterSetup is what the declaration of a cluster goes by.
type clusterSetup struct {
	config            Config
	parent            *Cluster
	nodes             []node
	hosts             []*Host // of the nodes, in their order
	programs          map[string]program
	token, agentToken pulumi.StringOutput
}

// newCluster declares the cluster and sets in.Cluster.
func newCluster(ctx *pulumi.Context, c Config, in *Infra) error {
	if !c.Cluster.enabled() {
		return nil
	}
	k := &Cluster{}
	if err := ctx.RegisterComponentResource("lab:infra:Cluster", "cluster", k, pulumi.Parent(in)); err != nil {
		return fmt.Errorf("declare the cluster: %w", err)
	}
	s := &clusterSetup{config: c, parent: k, programs: map[string]program{}}
	for _, i := range c.inCluster() {
		s.hosts = append(s.hosts, in.Hosts[i])
	}
	s.nodes = c.nodes(func(i int) (string, string) { return in.Hosts[i].Address, in.Hosts[i].URLHost })
	if err := s.newTokens(ctx); err != nil {
		return fmt.Errorf("declare the cluster: %w", err)
	}
	in.Cluster = &ClusterEndpoint{
		Kubeconfig:   pulumi.ToSecret(pulumi.String("").ToStringOutput()).(pulumi.StringOutput),
		Identity:     pulumi.String("").ToStringOutput(),
		Server:       s.hosts[0],
		Distribution: c.Cluster.Distribution,
		Kubectl:      c.Cluster.layout().kubectl(),
		Digest:       pulumi.String(clusterDigest(c)).ToStringOutput(),
	}
	if c.Cluster.Traefik {
		in.Cluster.Ingress = "traefik"
	}
	for i, n := range s.nodes {
		if n.pods {
			in.Cluster.Nodes = append(in.Cluster.Nodes, s.hosts[i])
		}
	}
	if !in.Planned {
		if err := s.install(ctx, in.Cluster); err != nil {
			return fmt.Errorf("declare the cluster: %w", err)
		}
	}
	return ctx.RegisterResourceOutputs(k, pulumi.Map{"kubeconfig": in.Cluster.Kubeconfig, "digest": in.Cluster.Digest})
}

// newTokens declares the passwords that nodes join with. A server's also encrypts
// what the cluster keeps of itself: it stays as it is, whatever a later version of
// this program would ask for.
func (s *clusterSetup) newTokens(ctx *pulumi.Context) error {
	newToken := func(name string) (pulumi.StringOutput, error) {
		p, err := random.NewRandomPassword(ctx, name, &random.RandomPasswordArgs{
			Length: pulumi.Int(48), Special: pulumi.Bool(false),
		}, pulumi.Parent(s.parent), pulumi.IgnoreChanges([]string{"*"}))
		if err != nil {
			return pulumi.StringOutput{}, err
		}
		return pulumi.ToSecret(p.Result).(pulumi.StringOutput), nil
	}
	var err error
	if s.token, err = newToken("cluster-token"); err != nil {
		return err
	}
	s.agentToken, err = newToken("cluster-agent-token")
	return err
}

// install sets the nodes up, one after another: every program is staged and
// checked first, and a node is begun when the one before it is Ready.
func (s *clusterSetup) install(ctx *pulumi.Context, endpoint *ClusterEndpoint) error {
	var before []pulumi.Resource
	for i := range s.nodes {
		staged, err := s.stage(ctx, i)
		if err != nil {
			return err
		}
		before = append(before, staged)
	}
	var hash pulumi.StringOutput
	for i := range s.nodes {
		last, err := s.newNode(ctx, i, hash, before)
		if err != nil {
			return err
		}
		before = []pulumi.Resource{last}
		if i > 0 {
			continue
		}
		if hash, err = s.readCA(ctx, before); err != nil {
			return err
		}
	}
	endpoint.Identity = hash
	raw, err := s.readKubeconfig(ctx, before)
	if err != nil {
		return err
	}
	name, server := "lab-"+ctx.Stack(), fmt.Sprintf("https://%s:%d", s.hosts[0].URLHost, apiPort)
	endpoint.Kubeconfig = pulumi.ToSecret(raw.ApplyT(func(text string) (string, error) {
		return kubeconfig.Rename(text, name, server)
	})).(pulumi.StringOutput)
	sums := pulumi.StringArray{endpoint.Digest}
	for _, arch := range slices.Sorted(maps.Keys(s.programs)) {
		if p := s.programs[arch]; p.built {
			sums = append(sums, p.sum)
		}
	}
	endpoint.Digest = sums.ToStringArrayOutput().ApplyT(func(all []string) string { return Digest(all) }).(pulumi.StringOutput)
	return s.keepKubeconfig(ctx, endpoint.Kubeconfig)
}

// keepKubeconfig writes the kubeconfig to a file of the lab's own, never into the
// operator's.
func (s *clusterSetup) keepKubeconfig(ctx *pulumi.Context, text pulumi.StringOutput) error {
	_, err := local.NewCommand(ctx, "kubeconfig", &local.CommandArgs{
		Create:  pulumi.Sprintf("%s kubeconfig write %s", LabCLI, ctx.Stack()),
		Delete:  pulumi.Sprintf("%s kubeconfig remove %s", LabCLI, ctx.Stack()),
		Stdin:   text,
		Logging: local.LoggingStderr,
	}, pulumi.Parent(s.parent))
	return err
}
