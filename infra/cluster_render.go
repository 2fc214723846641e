package infra

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"lab/infra/k3s"
)

const apiPort = 6443

// clusterHome is where the hosts keep the programs of a distribution, a folder
// for each sum; "current" leads to the one that runs.
const clusterHome = "/usr/local/lib/lab/cluster"

// What a node runs as.
const (
	modeServer = "server"
	modeAgent  = "agent"
)

// layout is where a distribution keeps its files on a node.
type layout struct {
	program    string // its file's name
	etc, data  string
	kubeconfig string // of the administrator, on a server
}

func (c ClusterConfig) layout() layout {
	if c.Distribution == DistributionLabkube {
		return layout{"labkube", "/etc/labkube", "/var/lib/labkube", "/etc/labkube/labkube.yaml"}
	}
	return layout{"k3s", "/etc/rancher/k3s", "/var/lib/rancher/k3s", "/etc/rancher/k3s/k3s.yaml"}
}

// kubectl is the command of the administrator on a server.
func (l layout) kubectl() string {
	return fmt.Sprintf("%s/current/%s kubectl --kubeconfig %s", clusterHome, l.program, l.kubeconfig)
}

// unit is the name of a node's systemd unit.
func (l layout) unit(mode string) string {
	if mode == modeServer {
		return l.program + ".service"
	}
	return l.program + "-agent.service"
}

// node is a host as a member of the cluster.
type node struct {
	name, mode string
	address    string // that the other nodes dial
	urlHost    string // by which the operator's computer reaches it
	first      bool   // of the servers: the one that the others join
	pods       bool   // whether it is a node of Kubernetes at all
}

// nodes are the hosts of the cluster in the order in which they are set up.
// place says where a host is.
func (c Config) nodes(place func(host int) (address, urlHost string)) []node {
	var all []node
	for _, i := range c.inCluster() {
		n := node{name: c.Hosts[i].Name, mode: modeAgent, pods: true}
		if slices.Contains(c.Hosts[i].Roles, RoleServer) {
			n.mode = modeServer
			n.first = len(all) == 0
			// k3s advises against a server that is no node; it gets a taint instead.
			n.pods = c.Cluster.ServerPods || c.Cluster.Distribution == DistributionK3s
		}
		n.address, n.urlHost = place(i)
		all = append(all, n)
	}
	return all
}

// nodeConfig is a node's configuration file. What only servers have is empty in an
// agent's; what only k3s knows is empty in labkube's, which refuses it. The tokens
// are in a file of their own.
type nodeConfig struct {
	NodeName            string   `yaml:"node-name"`
	NodeIP              string   `yaml:"node-ip"`
	ResolvConf          string   `yaml:"resolv-conf"`
	Server              string   `yaml:"server,omitempty"`
	ClusterInit         bool     `yaml:"cluster-init,omitempty"`
	TLSSAN              []string `yaml:"tls-san,omitempty"`
	ClusterCIDR         string   `yaml:"cluster-cidr,omitempty"`
	ServiceCIDR         string   `yaml:"service-cidr,omitempty"`
	ClusterDNS          string   `yaml:"cluster-dns,omitempty"`
	ClusterDomain       string   `yaml:"cluster-domain,omitempty"`
	FlannelBackend      string   `yaml:"flannel-backend,omitempty"`
	SecretsEncryption   bool     `yaml:"secrets-encryption,omitempty"`
	WriteKubeconfigMode string   `yaml:"write-kubeconfig-mode,omitempty"`
	DisableAgent        bool     `yaml:"disable-agent,omitempty"`
	Disable             []string `yaml:"disable,omitempty"`
}

// nodeSettings is the configuration file of one of the nodes. All servers have the
// same, but for their names and addresses.
func nodeSettings(c ClusterConfig, all []node, n node) (string, error) {
	l, isK3s := c.layout(), c.Distribution == DistributionK3s
	file := nodeConfig{NodeName: n.name, NodeIP: n.address, ResolvConf: l.etc + "/resolv.conf"}
	if !n.first {
		file.Server = fmt.Sprintf("https://%s:%d", all[0].address, apiPort)
	}
	if n.mode == modeServer {
		servers := 0
		file.TLSSAN = slices.Clone(c.TLSSANs)
		for _, other := range all {
			if other.mode == modeServer {
				servers++
				file.TLSSAN = append(file.TLSSAN, other.name, other.address, other.urlHost)
			}
		}
		slices.Sort(file.TLSSAN)
		file.TLSSAN = slices.Compact(file.TLSSAN)
		file.ClusterInit = servers > 1 && n.first
		file.ClusterCIDR, file.ServiceCIDR, file.ClusterDNS, file.ClusterDomain = c.ClusterCIDR, c.ServiceCIDR, c.ClusterDNS, c.ClusterDomain
		file.SecretsEncryption, file.WriteKubeconfigMode = c.SecretsEncryption, "0600"
		file.Disable = slices.Sorted(slices.Values(c.Disable))
		file.DisableAgent = !n.pods
		if isK3s {
			file.FlannelBackend = c.FlannelBackend
		}
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(file); err != nil {
		return "", fmt.Errorf("render the configuration of %s: %w", n.name, err)
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// nodeUnit is the systemd unit of a node. The unit of a server, and any of
// labkube's, tells systemd when it is ready; an agent of k3s is polled.
func nodeUnit(c ClusterConfig, mode string) (string, error) {
	l, kind := c.layout(), "notify"
	if c.Distribution == DistributionK3s && mode == modeAgent {
		kind = "exec"
	}
	return render("cluster.service", map[string]any{
		"Distribution": c.Distribution, "Mode": mode, "Type": kind,
		"Program": clusterHome + "/current/" + l.program, "Config": l.etc + "/config.yaml",
	})
}

// kubeletSettings is the drop-in of a node's kubelet.
func kubeletSettings(s KubeletSettings) (string, error) {
	return render("kubelet.conf", map[string]any{
		"FailSwapOn": s.FailSwapOn, "MaxPods": s.MaxPods,
		"SystemCPUMilli": s.SystemCPUMilli, "SystemMemoryMiB": s.SystemMemoryMiB,
		"KubeCPUMilli": s.KubeCPUMilli, "KubeMemoryMiB": s.KubeMemoryMiB, "EvictionMemoryMiB": s.EvictionMemoryMiB,
		"ShutdownSeconds": s.ShutdownSeconds, "ShutdownCriticalSeconds": s.ShutdownCriticalSeconds,
	})
}

// Ports of Traefik on every node.
const (
	traefikPort       = 8000
	traefikSecurePort = 8443
)

// traefikSettings is the manifest of how Traefik runs; "" without it. A node that
// does not answer the edge in time is left out, and so is a pod that does not
// answer Traefik.
func traefikSettings(c Config) (string, error) {
	if !c.Cluster.Traefik {
		return "", nil
	}
	return render("cluster-traefik.yaml", map[string]any{
		"Web": traefikPort, "WebSecure": traefikSecurePort, "DialTimeoutMs": c.Edge.ConnectTimeoutMs,
	})
}

// joinToken is a whole token, with which a node checks the server's CA before it
// says the password. caHash is the SHA-256 of the CA's certificate as its file is
// (https://docs.k3s.io/cli/token).
func joinToken(mode, caHash, password string) string {
	user := "node"
	if mode == modeServer {
		user = "server"
	}
	return fmt.Sprintf("K10%s::%s:%s", caHash, user, password)
}

// caHash reads what a first server's script printed. "" stays "": it is what a
// script that has not run has printed.
func caHash(stdout string) (string, error) {
	hash := strings.TrimSpace(stdout)
	if hash != "" && !k3s.IsSum(hash) {
		return "", fmt.Errorf("read the hash of the cluster's CA: %q is not 64 of 0-9 and a-f", hash)
	}
	return hash, nil
}

// nameserverLines are the lines of a resolver's file; "" for none.
func nameserverLines(servers []string) string {
	var lines []string
	for _, server := range servers {
		lines = append(lines, "nameserver "+server)
	}
	return strings.Join(lines, "\n")
}

// nodeLabels and nodeTaints are what `kubectl label` and `kubectl taint` are told,
// a line each.
func nodeLabels(h HostConfig) string {
	var lines []string
	for key, value := range h.Labels {
		lines = append(lines, key+"="+value)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func nodeTaints(c ClusterConfig, h HostConfig) string {
	taints := slices.Clone(h.Taints)
	if slices.Contains(h.Roles, RoleServer) && !c.ServerPods {
		taints = append(taints, "node-role.kubernetes.io/control-plane:NoSchedule")
	}
	slices.Sort(taints)
	return strings.Join(slices.Compact(taints), "\n")
}

// machineCap is what a container has of its computer, of which its kubelet sees
// all; "" for any other machine.
func machineCap(h HostConfig) (cpuMilli, memoryMiB string) {
	if h.Kind != KindNspawn {
		return "", ""
	}
	return fmt.Sprint(int(h.CPUs * 1000)), fmt.Sprint(h.MemoryMiB)
}

// clusterFiles are the embedded files that only a cluster uses.
func clusterFiles() map[string]string {
	texts := map[string]string{}
	for name, text := range embeddedFiles() {
		if isClusterFile(name) {
			texts[name] = text
		}
	}
	return texts
}

func isClusterFile(name string) bool {
	return strings.HasPrefix(name, "cluster") || name == "kubelet.conf"
}

// clusterDigest changes with what can move the ceiling of a cluster; not with
// where its files come from, nor with how patient its upgrades are.
func clusterDigest(c Config) string {
	cl := c.Cluster
	cl.Path, cl.URL, cl.Images, cl.DrainSeconds = "", "", ImagesConfig{}, 0
	if cl.Distribution == DistributionK3s {
		// Of all sums, those of the cluster's own hosts: they are the hosts' digests too.
		cl.SHA256 = map[string]string{}
		for _, i := range c.inCluster() {
			if arch := c.Hosts[i].arch(); c.Cluster.SHA256[arch] != "" {
				cl.SHA256[arch] = c.Cluster.SHA256[arch]
			}
		}
	}
	return Digest(cl, clusterFiles())
}
