package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// config is what lab may write; any other key is refused.
type config struct {
	NodeName            string   `yaml:"node-name"`
	NodeIP              string   `yaml:"node-ip"`
	ResolvConf          string   `yaml:"resolv-conf"`
	FlannelIface        string   `yaml:"flannel-iface"`
	Server              string   `yaml:"server"`
	Token               string   `yaml:"token"`
	AgentToken          string   `yaml:"agent-token"`
	ClusterInit         bool     `yaml:"cluster-init"`
	TLSSAN              []string `yaml:"tls-san"`
	ClusterCIDR         string   `yaml:"cluster-cidr"`
	ServiceCIDR         string   `yaml:"service-cidr"`
	ClusterDNS          string   `yaml:"cluster-dns"`
	ClusterDomain       string   `yaml:"cluster-domain"`
	FlannelBackend      string   `yaml:"flannel-backend"`
	SecretsEncryption   bool     `yaml:"secrets-encryption"`
	WriteKubeconfigMode string   `yaml:"write-kubeconfig-mode"`
	Disable             []string `yaml:"disable"`
}

// serverKeys are those that k3s refuses in an agent's file.
var serverKeys = []string{
	"agent-token", "cluster-init", "tls-san", "cluster-cidr", "service-cidr", "cluster-dns", "cluster-domain",
	"flannel-backend", "secrets-encryption", "write-kubeconfig-mode", "disable",
}

var wholeToken = regexp.MustCompile(`^K10([0-9a-f]{64})::(node|server):([A-Za-z0-9]+)$`)

// readConfig reads a file and those of the folder beside it, as k3s does: a later
// key replaces an earlier one.
func readConfig(mode, file string) (config, error) {
	var c config
	drops, err := filepath.Glob(file + ".d/*.yaml")
	if err != nil {
		return c, err
	}
	slices.Sort(drops)
	for _, name := range append([]string{file}, drops...) {
		text, err := os.ReadFile(name)
		if err != nil {
			return c, err
		}
		d := yaml.NewDecoder(bytes.NewReader(text))
		d.KnownFields(true)
		if err := d.Decode(&c); err != nil {
			return c, fmt.Errorf("%s: %w", name, err)
		}
		for line := range strings.Lines(string(text)) {
			key, _, _ := strings.Cut(line, ":")
			if mode == "agent" && slices.Contains(serverKeys, key) {
				return c, fmt.Errorf("%s: %s is a server's", name, key)
			}
			if info, err := os.Stat(name); strings.HasSuffix(key, "token") && (err != nil || info.Mode().Perm() != 0o600) {
				return c, fmt.Errorf("%s holds a token, but its mode is not 0600", name)
			}
		}
	}
	return c, nil
}

// check reports everything that k3s could not run with, or would run with in a way
// that lab does not mean.
func (c config) check(mode string) error {
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	iface, err := net.InterfaceByName(c.FlannelIface)
	bad(err == nil, "flannel-iface: %q: %v", c.FlannelIface, err)
	if err == nil {
		addrs, err := iface.Addrs()
		has := slices.ContainsFunc(addrs, func(a net.Addr) bool { return strings.HasPrefix(a.String(), c.NodeIP+"/") })
		bad(err == nil && has, "node-ip: %q is no address of %s, which has %v", c.NodeIP, c.FlannelIface, addrs)
	}
	host, err := os.Hostname()
	bad(err == nil && c.NodeName == host, "node-name: %q is not this machine's, %s", c.NodeName, host)
	resolver, err := os.ReadFile(c.ResolvConf)
	bad(err == nil && regexp.MustCompile(`(?m)^nameserver [0-9a-f.:]+$`).Match(resolver), "resolv-conf: %q names no server: %v", c.ResolvConf, err)
	joins := wholeToken.MatchString(c.Token)
	bad(joins == (c.Server != ""), "token: whole %v, but server is %q", joins, c.Server)
	bad(mode == "server" || c.Server != "", "server: an agent has none")
	bad(mode == "agent" || len(c.AgentToken) > 20 && c.AgentToken != c.Token, "agent-token: is none of its own")
	bad(mode == "agent" || c.SecretsEncryption && c.WriteKubeconfigMode == "0600", "secrets-encryption %v, write-kubeconfig-mode %q", c.SecretsEncryption, c.WriteKubeconfigMode)
	return errors.Join(append(errs, checkKubelet())...)
}

// checkKubelet reads the drop-ins in their order, as the kubelet does.
func checkKubelet() error {
	files, err := filepath.Glob(data + "/agent/etc/kubelet.conf.d/*.conf")
	if err != nil {
		return err
	}
	slices.Sort(files)
	merged := map[string]any{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := yaml.Unmarshal(text, &merged); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for _, key := range []string{"shutdownGracePeriod", "shutdownGracePeriodCriticalPods", "evictionHard", "kubeReserved", "systemReserved"} {
		if merged[key] == nil || merged[key] == "0s" {
			return fmt.Errorf("kubelet: %s is %v", key, merged[key])
		}
	}
	reserved, ok := merged["systemReserved"].(map[string]any)
	if !ok {
		return fmt.Errorf("kubelet: systemReserved is %v", merged["systemReserved"])
	}
	var milli int
	if _, err := fmt.Sscanf(fmt.Sprint(reserved["cpu"]), "%dm", &milli); err != nil || milli >= runtime.NumCPU()*1000 {
		return fmt.Errorf("kubelet: systemReserved.cpu is %v on a machine of %d CPUs: %v", reserved["cpu"], runtime.NumCPU(), err)
	}
	return nil
}
