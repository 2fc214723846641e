package loadtest

import (
	"strings"

	"lab/infra"
)

// samplerKubeconfig is the way to the cluster of the sampler that watches it.
const samplerKubeconfig = "/etc/lab/sampler.kubeconfig"

// watchesCluster tells whether the host's sampler watches the cluster: the first
// server's does, and no other.
func watchesCluster(h *infra.Host, in *infra.Infra) bool {
	return in.Cluster != nil && h == in.Cluster.Server
}

// samplerScript sets a host's sampler up. Where that is to watch the cluster, it
// gets an account there first.
func samplerScript(h *infra.Host, in *infra.Infra) (script string, variables map[string]string) {
	if !watchesCluster(h, in) {
		return text("sampler.sh"), map[string]string{"kubeconfig": ""}
	}
	return strings.Join([]string{text("kubernetes-reader.sh"), text("sampler.sh")}, "\n"), map[string]string{
		"kubeconfig": samplerKubeconfig, "kubectl": in.Cluster.Kubectl, "manifest": text("kubernetes-reader.yaml"),
	}
}
