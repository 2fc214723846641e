package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Config is a node's configuration. Its keys are those of k3s that labkube has
// too, so that one file configures either.
type Config struct {
	DataDir  string `json:"data-dir"`
	NodeName string `json:"node-name"`
	NodeIP   string `json:"node-ip"`

	Server     string `json:"server"`      // of an agent: https://HOST:PORT of a server's API
	Token      string `json:"token"`       // of a server, its own; of an agent, a whole one
	TokenFile  string `json:"token-file"`  // instead of Token
	AgentToken string `json:"agent-token"` // of a server: what agents join with; Token when empty

	TLSSAN              []string `json:"tls-san"` // further names of the API server
	ClusterCIDR         string   `json:"cluster-cidr"`
	ServiceCIDR         string   `json:"service-cidr"`
	ClusterDNS          string   `json:"cluster-dns"`
	ClusterDomain       string   `json:"cluster-domain"`
	WriteKubeconfig     string   `json:"write-kubeconfig"`
	WriteKubeconfigMode string   `json:"write-kubeconfig-mode"`
	SecretsEncryption   bool     `json:"secrets-encryption"`
	DisableAgent        bool     `json:"disable-agent"` // a server that runs no pods
	Disable             []string `json:"disable"`       // of coredns, metrics-server; others are ones that only k3s has

	ResolvConf string   `json:"resolv-conf"`
	NodeLabel  []string `json:"node-label"` // KEY=VALUE, at registration only
	NodeTaint  []string `json:"node-taint"` // KEY=VALUE:EFFECT, at registration only

	APIServerArg         []string `json:"kube-apiserver-arg"` // FLAG=VALUE, after ours
	ControllerManagerArg []string `json:"kube-controller-manager-arg"`
	SchedulerArg         []string `json:"kube-scheduler-arg"`
	KubeletArg           []string `json:"kubelet-arg"`
	ProxyArg             []string `json:"kube-proxy-arg"`
}

func defaults() Config {
	return Config{
		DataDir: "/var/lib/labkube", WriteKubeconfig: "/etc/labkube/labkube.yaml", WriteKubeconfigMode: "0600",
		ClusterCIDR: "10.42.0.0/16", ServiceCIDR: "10.43.0.0/16", ClusterDNS: "10.43.0.10", ClusterDomain: "cluster.local",
	}
}

// readConfig reads a file and, in the order of their names, those of the folder
// beside it with ".d" appended: a later key replaces an earlier one.
func readConfig(file string) (Config, error) {
	c := defaults()
	drops, err := filepath.Glob(file + ".d/*.yaml")
	if err != nil {
		return c, err
	}
	slices.Sort(drops)
	for i, name := range append([]string{file}, drops...) {
		text, err := os.ReadFile(name)
		if i == 0 && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return c, err
		}
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		if err := yaml.UnmarshalStrict(text, &c); err != nil {
			return c, fmt.Errorf("%s: %w", name, err)
		}
	}
	if c.NodeName == "" {
		if c.NodeName, err = os.Hostname(); err != nil {
			return c, err
		}
	}
	c.NodeName = strings.ToLower(c.NodeName)
	if c.TokenFile != "" && c.Token == "" {
		text, err := os.ReadFile(c.TokenFile)
		if err != nil {
			return c, err
		}
		c.Token = strings.TrimSpace(string(text))
	}
	return c, nil
}

// validate reports everything wrong with the configuration of a server, or of an
// agent.
func (c Config) validate(agent bool) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if _, err := netip.ParseAddr(c.NodeIP); err != nil {
		bad("node-ip: %q is no IP address; set the address that the other nodes reach this one at", c.NodeIP)
	}
	if agent {
		if !strings.HasPrefix(c.Server, "https://") {
			bad("server: %q: want https://HOST:PORT of a server", c.Server)
		}
		if c.Token == "" {
			bad("token: is empty; set the server's, from its file server/node-token")
		}
		return errors.Join(errs...)
	}
	service := prefix("service-cidr", c.ServiceCIDR, &errs)
	cluster := prefix("cluster-cidr", c.ClusterCIDR, &errs)
	if service.IsValid() && cluster.IsValid() && service.Overlaps(cluster) {
		bad("service-cidr: %s overlaps cluster-cidr %s; take another range", service, cluster)
	}
	if cluster.IsValid() && cluster.Bits() > 24-1 {
		bad("cluster-cidr: %s has no room for a /24 for each of two nodes; take a /16", cluster)
	}
	if dns, err := netip.ParseAddr(c.ClusterDNS); err != nil || service.IsValid() && !service.Contains(dns) {
		bad("cluster-dns: %q is no address of service-cidr %s", c.ClusterDNS, c.ServiceCIDR)
	}
	if c.Server != "" {
		bad("server: labkube has one server; leave it out, or use k3s for several")
	}
	return errors.Join(errs...)
}

func prefix(key, text string, errs *[]error) netip.Prefix {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		*errs = append(*errs, fmt.Errorf("%s: %q: want a range such as 10.42.0.0/16", key, text))
	}
	return p
}

func (c Config) disabled(part string) bool { return slices.Contains(c.Disable, part) }
