package main

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
)

const (
	apiPort      = 6443
	joinPort     = 9345
	metricsPort  = 10351 // of metrics-server, on the server
	dnsPort      = 1053  // of the cluster DNS, on the server
	etcdURL      = "http://127.0.0.1:2379"
	proxyHealthz = "0.0.0.0:10256"
)

// flags renders FLAG=VALUE pairs as arguments; later ones win in Kubernetes'
// programs, so the user's come last.
func flags(own []string, more []string) []string {
	var all []string
	for _, f := range append(own, more...) {
		all = append(all, "--"+strings.TrimPrefix(f, "--"))
	}
	return all
}

func (c Config) pki(name string) string      { return filepath.Join(c.DataDir, "server", "tls", name) }
func (c Config) agentDir(name string) string { return filepath.Join(c.DataDir, "agent", name) }

func (c Config) etcdArgs() []string {
	return []string{"etcd", "--data-dir=" + filepath.Join(c.DataDir, "server", "db"), "--listen-client-url=" + etcdURL}
}

func (c Config) apiServerArgs() []string {
	return append([]string{"kube-apiserver"}, flags([]string{
		"etcd-servers=" + etcdURL,
		"advertise-address=" + c.NodeIP,
		fmt.Sprintf("secure-port=%d", apiPort),
		"service-cluster-ip-range=" + c.ServiceCIDR,
		"client-ca-file=" + c.pki("client-ca.crt"),
		"tls-cert-file=" + c.pki("apiserver.crt"),
		"tls-private-key-file=" + c.pki("apiserver.key"),
		"service-account-issuer=https://kubernetes.default.svc." + c.ClusterDomain,
		"service-account-key-file=" + c.pki("service-account.pub"),
		"service-account-signing-key-file=" + c.pki("service-account.key"),
		"kubelet-client-certificate=" + c.pki("apiserver-kubelet.crt"),
		"kubelet-client-key=" + c.pki("apiserver-kubelet.key"),
		"kubelet-certificate-authority=" + c.pki("server-ca.crt"),
		"kubelet-preferred-address-types=InternalIP",
		"authorization-mode=Node,RBAC",
		"enable-admission-plugins=NodeRestriction",
		"allow-privileged=true",
		"requestheader-client-ca-file=" + c.pki("request-ca.crt"),
		"requestheader-allowed-names=front-proxy",
		"requestheader-username-headers=X-Remote-User",
		"requestheader-group-headers=X-Remote-Group",
		"requestheader-extra-headers-prefix=X-Remote-Extra-",
		"proxy-client-cert-file=" + c.pki("front-proxy.crt"),
		"proxy-client-key-file=" + c.pki("front-proxy.key"),
		"enable-aggregator-routing=true", // to the endpoints: a server without pods has no Service addresses
		"profiling=false",
	}, append(c.encryptionArgs(), c.APIServerArg...))...)
}

func (c Config) encryptionArgs() []string {
	if !c.SecretsEncryption {
		return nil
	}
	return []string{"encryption-provider-config=" + c.pki("encryption.yaml")}
}

func (c Config) controllerArgs() []string {
	return append([]string{"kube-controller-manager"}, flags([]string{
		"kubeconfig=" + c.pki("controller-manager.kubeconfig"),
		"service-account-private-key-file=" + c.pki("service-account.key"),
		"root-ca-file=" + c.pki("server-ca.crt"),
		"cluster-signing-cert-file=" + c.pki("client-ca.crt"),
		"cluster-signing-key-file=" + c.pki("client-ca.key"),
		"use-service-account-credentials=true",
		"allocate-node-cidrs=true",
		"cluster-cidr=" + c.ClusterCIDR,
		"service-cluster-ip-range=" + c.ServiceCIDR,
		"leader-elect=false",
		"kube-api-qps=300", "kube-api-burst=600",
		"horizontal-pod-autoscaler-sync-period=5s",
		"horizontal-pod-autoscaler-initial-readiness-delay=5s",
		"horizontal-pod-autoscaler-cpu-initialization-period=20s",
		"bind-address=127.0.0.1",
		"profiling=false",
	}, c.ControllerManagerArg)...)
}

func (c Config) schedulerArgs() []string {
	return append([]string{"kube-scheduler"}, flags([]string{
		"kubeconfig=" + c.pki("scheduler.kubeconfig"),
		"leader-elect=false",
		"kube-api-qps=300", "kube-api-burst=600",
		"bind-address=127.0.0.1",
		"profiling=false",
	}, c.SchedulerArg)...)
}

func (c Config) kubeletArgs() []string {
	own := []string{
		"config=" + c.agentDir("kubelet.yaml"),
		"config-dir=" + c.agentDir("etc/kubelet.conf.d"),
		"kubeconfig=" + c.agentDir("kubelet.kubeconfig"),
		"root-dir=/var/lib/kubelet",
		"cert-dir=" + c.agentDir("pki"),
		"hostname-override=" + c.NodeName,
		"node-ip=" + c.NodeIP,
	}
	if len(c.NodeLabel) > 0 {
		own = append(own, "node-labels="+strings.Join(c.NodeLabel, ","))
	}
	if len(c.NodeTaint) > 0 {
		own = append(own, "register-with-taints="+strings.Join(c.NodeTaint, ","))
	}
	return append([]string{"kubelet"}, flags(own, c.KubeletArg)...)
}

func (c Config) proxyArgs() []string {
	return append([]string{"kube-proxy"}, flags([]string{"config=" + c.agentDir("kube-proxy.yaml")}, c.ProxyArg)...)
}

func (c Config) metricsServerArgs() []string {
	return []string{
		"--kubeconfig=" + c.pki("metrics-client.kubeconfig"),
		"--authentication-kubeconfig=" + c.pki("metrics-client.kubeconfig"),
		"--authorization-kubeconfig=" + c.pki("metrics-client.kubeconfig"),
		fmt.Sprintf("--secure-port=%d", metricsPort),
		"--tls-cert-file=" + c.pki("metrics-server.crt"),
		"--tls-private-key-file=" + c.pki("metrics-server.key"),
		"--kubelet-certificate-authority=" + c.pki("server-ca.crt"),
		"--kubelet-preferred-address-types=InternalIP",
		"--metric-resolution=10s",
		"--kubelet-request-timeout=5s", // at the resolution's value it panics
	}
}

// apiHosts are the names and addresses that the API server's certificate is for.
func (c Config) apiHosts() []string {
	hosts := []string{
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + c.ClusterDomain,
		"localhost", "127.0.0.1", c.NodeName, c.NodeIP,
	}
	if p, err := netip.ParsePrefix(c.ServiceCIDR); err == nil {
		hosts = append(hosts, p.Masked().Addr().Next().String()) // the Service "kubernetes" has the first one
	}
	return append(hosts, c.TLSSAN...)
}
