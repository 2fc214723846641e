package loadtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lab/infra"
	"lab/loadtest/analysis"
	"lab/loadtest/plan"
	"lab/workloads"
)

// clusterKubeconfig is what a cluster's first server prints.
const clusterKubeconfig = `clusters: [{name: default, cluster: {server: "https://127.0.0.1:6443", certificate-authority-data: Q0E=}}]
users: [{name: default, user: {client-certificate-data: Q0VSVA==, client-key-data: S0VZ}}]
contexts: [{name: default, context: {cluster: default, user: default}}]
current-context: default`

// withCluster has a server and an agent beside the machines of the stack local.
func withCluster(c *infra.Config, _ *workloads.Config) {
	c.Cluster.Distribution, c.Cluster.Version, c.Cluster.Path = infra.DistributionK3s, "v1.36.4+k3s1", "k3s-{arch}"
	sum := strings.Repeat("a", 64)
	c.Cluster.SHA256 = map[string]string{"amd64": sum, "arm64": sum}
	for _, row := range []struct{ name, role string }{{"server", infra.RoleServer}, {"agent", infra.RoleAgent}} {
		c.Hosts = append(c.Hosts, infra.HostConfig{Name: row.name, Kind: infra.KindNspawn, Roles: []string{row.role}, CPUs: 0.5, MemoryMiB: 1024})
	}
}

// On a cluster the first server's sampler watches it, in the workload's namespace,
// and nobody asks the app of the host that ran it before.
func TestTheFirstServersSamplerWatchesTheCluster(t *testing.T) {
	for name, m := range map[string]*mocks{"preview": {preview: true}, "update": {sha256: "s1", result: holds(t)}} {
		declare(t, stackConfig(t), m, func(c *infra.Config, w *workloads.Config) {
			withCluster(c, w)
			w.Namespace = "shop"
		})
		for host, want := range map[string][]plan.Service{
			"server": {{Kind: analysis.ServiceKubernetes, Address: "/etc/lab/sampler.kubeconfig", Namespace: "shop"}},
			"agent":  {}, "app": {},
			"edge": {{Kind: analysis.ServiceNginx, Address: "http://127.0.0.1:80/-/status", Limit: 2048}},
		} {
			stdin := m.stdin(t, host+"-sampler")
			list, err := withPassword(want, "")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(list, assigned(t, stdin, "services")); diff != "" {
				t.Errorf("%s, %s: %s", name, host, diff)
			}
			watches := host == "server"
			if got := assigned(t, stdin, "kubeconfig"); (got == samplerKubeconfig) != watches || (got == "") == watches {
				t.Errorf("%s: the sampler of %s has the kubeconfig %q", name, host, got)
			}
			if strings.Contains(stdin, "kind: ServiceAccount") != watches {
				t.Errorf("%s: the script of %s makes an account: %v, want %v", name, host, !watches, watches)
			}
		}
		if got := assigned(t, m.stdin(t, "server-sampler"), "kubectl"); got != "/usr/local/lib/lab/cluster/current/k3s kubectl --kubeconfig /etc/rancher/k3s/k3s.yaml" {
			t.Errorf("%s: the account is made by %q", name, got)
		}
		if p := assigned(t, m.stdin(t, "load"), "plan"); !strings.Contains(p, `"services":["kubernetes"]`) {
			t.Errorf("%s: the plan is %s", name, p)
		}
	}
}

// A cluster that is made anew has other tokens: its sampler's script runs again.
func TestAnotherClusterRunsTheSamplersScriptAgain(t *testing.T) {
	triggers := func(host string, change func(*infra.Config)) string {
		m := &mocks{sha256: "s1", result: holds(t)}
		declare(t, stackConfig(t), m, func(c *infra.Config, w *workloads.Config) {
			withCluster(c, w)
			change(c)
		})
		return fmt.Sprint(m.find(t, host+"-sampler").Inputs["triggers"])
	}
	another := func(c *infra.Config) { c.Cluster.ClusterCIDR = "10.44.0.0/16" }
	var again []string
	for _, host := range []string{"server", "agent", "app"} {
		if triggers(host, func(*infra.Config) {}) != triggers(host, another) {
			again = append(again, host)
		}
	}
	if !slices.Equal(again, []string{"server"}) {
		t.Errorf("again on %v", again)
	}
}
