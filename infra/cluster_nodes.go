package infra

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"strings"
	"time"

	"github.com/pulumi/pulumi-command/sdk/go/command/local"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"lab/build"
	"lab/infra/k3s"
)

// nodeTimeout is patient with a Raspberry Pi that starts from an SD card.
const nodeTimeout = 900 * time.Second

// program is what a node runs.
type program struct {
	version string // of k3s
	sum     pulumi.StringOutput
	path    pulumi.StringOutput // on this computer
	url     string              // where the host fetches it, when it is not on this computer
	built   bool                // here, so that its sum is an output
}

// programFor is the program of an architecture, declared once.
func (s *clusterSetup) programFor(ctx *pulumi.Context, arch string) (program, error) {
	if p, ok := s.programs[arch]; ok {
		return p, nil
	}
	cl := s.config.Cluster
	p := program{version: cl.Version, sum: pulumi.String(cl.SHA256[arch]).ToStringOutput()}
	switch {
	case cl.Distribution == DistributionLabkube:
		bundle, err := s.newBundle(ctx, arch)
		if err != nil {
			return p, err
		}
		p = program{sum: bundle.SHA256, path: bundle.path, built: true}
	case cl.Path != "":
		p.path = pulumi.String(k3s.Expand(cl.Path, cl.Version, arch)).ToStringOutput()
	default:
		p.url = k3s.Expand(cl.url(), cl.Version, arch)
	}
	s.programs[arch] = p
	return p, nil
}

// newBundle builds labkube and what it needs beside it, packed, again when its
// sources have changed.
func (s *clusterSetup) newBundle(ctx *pulumi.Context, arch string) (*Binary, error) {
	root, err := build.Root()
	if err != nil {
		return nil, err
	}
	sources, err := build.TreeDigest(root, "tools/labkube", "scripts/labkube.sh", "scripts/labkube-bundle.sh")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("declare labkube: its sources are not here (tools/labkube, scripts/labkube.sh), nothing was touched; set infra.cluster.distribution to k3s or none")
	}
	if err != nil {
		return nil, fmt.Errorf("declare labkube: %w", err)
	}
	made, err := local.NewCommand(ctx, "labkube-"+arch, &local.CommandArgs{
		Create:   pulumi.String("scripts/labkube-bundle.sh " + arch),
		Logging:  local.LoggingStderr,
		Triggers: pulumi.Array{pulumi.String(sources)},
	}, pulumi.Parent(s.parent))
	if err != nil {
		return nil, err
	}
	return printed(made, "labkube"), nil
}

// variables are what every script of the cluster on a host gets.
func (s *clusterSetup) variables(mode string, more map[string]string) map[string]string {
	l := s.config.Cluster.layout()
	all := map[string]string{
		"distribution": s.config.Cluster.Distribution, "home": clusterHome, "program": l.program,
		"etc": l.etc, "data": l.data, "unit": l.unit(mode), "kubeconfig": l.kubeconfig,
	}
	if mode == modeAgent {
		all["kubeconfig"] = l.data + "/agent/kubelet.kubeconfig" // who may read its own node
	}
	maps.Copy(all, more)
	return all
}

// clusterScript is a script with what the cluster's scripts share before it.
func clusterScript(names ...string) string {
	var b strings.Builder
	for _, name := range append([]string{"cluster.sh"}, names...) {
		b.WriteString(File(name) + "\n")
	}
	return b.String()
}

// stage brings the program to a host, and the images if there are any, and checks
// them there.
func (s *clusterSetup) stage(ctx *pulumi.Context, i int) (pulumi.Resource, error) {
	host, cl := s.hosts[i], s.config.Cluster
	p, err := s.programFor(ctx, host.Arch)
	if err != nil {
		return nil, err
	}
	variables := map[string]string{"version": p.version, "url": p.url, "copied": "", "images": "", "images_sum": "", "images_name": ""}
	var waits []pulumi.Resource
	if p.url == "" {
		path, copied, err := CopyFile(ctx, host, cl.layout().program, p.path, p.sum, s.parent)
		if err != nil {
			return nil, err
		}
		variables["copied"], waits = path, append(waits, copied)
	}
	if cl.Distribution == DistributionK3s && cl.Images.Path != "" {
		images, sum := k3s.Expand(cl.Images.Path, cl.Version, host.Arch), cl.Images.SHA256[host.Arch]
		path, copied, err := CopyFile(ctx, host, "images", pulumi.String(images).ToStringOutput(), pulumi.String(sum).ToStringOutput(), s.parent)
		if err != nil {
			return nil, err
		}
		variables["images"], variables["images_sum"], variables["images_name"] = path, sum, filepath.Base(images)
		waits = append(waits, copied)
	}
	return NewScript(ctx, host.Name+"-stage", &ScriptArgs{
		Host: host, Script: clusterScript("cluster-stage.sh"), Variables: s.variables(s.nodes[i].mode, variables),
		Secrets: map[string]pulumi.StringInput{"sum": p.sum}, Triggers: []pulumi.StringInput{p.sum}, Timeout: nodeTimeout,
	}, pulumi.Parent(s.parent), pulumi.DependsOn(waits))
}

// newNode declares a node: drained if another program comes, set up, then made
// what the configuration says of it. It returns what the next node waits for.
func (s *clusterSetup) newNode(ctx *pulumi.Context, i int, hash pulumi.StringOutput, before []pulumi.Resource) (pulumi.Resource, error) {
	n, server, p := s.nodes[i], s.hosts[0], s.programs[s.hosts[i].Arch]
	drain := fmt.Sprint(s.config.Cluster.DrainSeconds)
	sum := map[string]pulumi.StringInput{"sum": p.sum}
	if n.pods {
		drained, err := NewScript(ctx, n.name+"-drain", &ScriptArgs{
			Host: server, Script: clusterScript("cluster-drain.sh"), Secrets: sum, Triggers: []pulumi.StringInput{p.sum},
			Variables: s.variables(modeServer, map[string]string{"node": n.name, "self": server.Name, "address": n.address, "drain_seconds": drain}),
			Timeout:   time.Duration(s.config.Cluster.DrainSeconds+300) * time.Second,
		}, pulumi.Parent(s.parent), pulumi.DependsOn(before))
		if err != nil {
			return nil, err
		}
		before = []pulumi.Resource{drained}
	}
	installed, err := s.setUp(ctx, i, hash, before)
	if err != nil || !n.pods {
		return installed, err
	}
	h := s.config.Hosts[s.config.inCluster()[i]]
	return NewScript(ctx, n.name+"-member", &ScriptArgs{
		Host: server, Script: clusterScript("cluster-member.sh"), Secrets: sum, Triggers: []pulumi.StringInput{p.sum},
		Variables: s.variables(modeServer, map[string]string{
			"node": n.name, "address": n.address, "version": p.version, "drain_seconds": drain,
			"labels": nodeLabels(h), "taints": nodeTaints(s.config.Cluster, h),
		}),
		Timeout: time.Duration(s.config.Cluster.DrainSeconds+300) * time.Second,
		Undo:    !n.first, // the cluster goes with its first server
	}, pulumi.Parent(s.parent), pulumi.DependsOn([]pulumi.Resource{installed}), server.GoneWith())
}

// setUp writes a node's files and starts it.
func (s *clusterSetup) setUp(ctx *pulumi.Context, i int, hash pulumi.StringOutput, before []pulumi.Resource) (pulumi.Resource, error) {
	host, n, cl := s.hosts[i], s.nodes[i], s.config.Cluster
	p := s.programs[host.Arch]
	settings, err := nodeSettings(cl, s.nodes, n)
	if err != nil {
		return nil, err
	}
	unit, err := nodeUnit(cl, n.mode)
	if err != nil {
		return nil, err
	}
	kubelet, err := kubeletSettings(cl.Kubelet)
	if err != nil {
		return nil, err
	}
	cpus, memory := machineCap(s.config.Hosts[s.config.inCluster()[i]])
	variables := map[string]string{
		"node": n.name, "address": n.address, "version": p.version, "pods": "", "settings": settings, "unit_text": unit, "kubelet": kubelet,
		"nameservers": nameserverLines(cl.Nameservers), "flannel_iface": cl.FlannelIface, "cap_cpu_milli": cpus, "cap_memory_mib": memory,
		"system_cpu_milli": fmt.Sprint(cl.Kubelet.SystemCPUMilli), "system_memory_mib": fmt.Sprint(cl.Kubelet.SystemMemoryMiB),
	}
	if n.pods {
		variables["pods"] = "yes"
	}
	secrets := map[string]pulumi.StringInput{"sum": p.sum, "token": s.token}
	if n.mode == modeServer {
		if variables["traefik"], err = traefikSettings(s.config); err != nil {
			return nil, err
		}
		secrets["agent_token"] = s.agentToken
	}
	switch {
	case n.mode == modeAgent:
		secrets["token"] = whole(n.mode, hash, s.agentToken)
	case !n.first:
		secrets["token"] = whole(n.mode, hash, s.token)
	}
	return NewScript(ctx, n.name+"-node", &ScriptArgs{
		Host: host, Script: clusterScript("cluster-node.sh", "cluster-"+n.mode+".sh"), Variables: s.variables(n.mode, variables),
		Secrets: secrets, Triggers: []pulumi.StringInput{p.sum}, Timeout: nodeTimeout, Undo: true,
	}, pulumi.Parent(s.parent), pulumi.DependsOn(before), host.GoneWith())
}

func whole(mode string, hash, password pulumi.StringOutput) pulumi.StringOutput {
	return pulumi.All(hash, password).ApplyT(func(v []any) string {
		return joinToken(mode, v[0].(string), v[1].(string))
	}).(pulumi.StringOutput)
}

// readCA reads the hash of the cluster's CA, once in the first server's life: no
// later change of the server makes the tokens of the others unknown in a preview.
func (s *clusterSetup) readCA(ctx *pulumi.Context, after []pulumi.Resource) (pulumi.StringOutput, error) {
	read, err := NewScript(ctx, "cluster-ca", &ScriptArgs{
		Host: s.hosts[0], Script: clusterScript("cluster-ca.sh"), Variables: s.variables(modeServer, nil),
	}, pulumi.Parent(s.parent), pulumi.DependsOn(after))
	if err != nil {
		return pulumi.StringOutput{}, err
	}
	return read.Stdout.ApplyT(caHash).(pulumi.StringOutput), nil
}

// readKubeconfig checks that every node is Ready and reads the administrator's
// kubeconfig, again when the program changes: its certificate is renewed then.
func (s *clusterSetup) readKubeconfig(ctx *pulumi.Context, after []pulumi.Resource) (pulumi.StringOutput, error) {
	var names []string
	for _, n := range s.nodes {
		if n.pods {
			names = append(names, n.name)
		}
	}
	p := s.programs[s.hosts[0].Arch]
	read, err := NewScript(ctx, "cluster-kubeconfig", &ScriptArgs{
		Host: s.hosts[0], Script: clusterScript("cluster-kubeconfig.sh"),
		Variables: s.variables(modeServer, map[string]string{"nodes": strings.Join(names, " "), "version": p.version}),
		Triggers:  []pulumi.StringInput{p.sum}, Timeout: nodeTimeout,
	}, pulumi.Parent(s.parent), pulumi.DependsOn(after), pulumi.AdditionalSecretOutputs([]string{"stdout"}))
	if err != nil {
		return pulumi.StringOutput{}, err
	}
	return pulumi.ToSecret(read.Stdout).(pulumi.StringOutput), nil
}
