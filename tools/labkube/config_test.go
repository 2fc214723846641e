package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestReadConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	write(t, file, "node-name: Agent-1\nnode-ip: 10.0.0.2\nkubelet-arg: [max-pods=50]\n")
	write(t, file+".d/20-later.yaml", "node-ip: 10.0.0.4\n")
	write(t, file+".d/10-first.yaml", "node-ip: 10.0.0.3\ntoken-file: "+file+".token\n")
	write(t, file+".d/ignored.txt", "not: [yaml")
	write(t, file+".token", "secret\n")
	c, err := readConfig(file)
	if err != nil {
		t.Fatal(err)
	}
	if c.NodeName != "agent-1" || c.NodeIP != "10.0.0.4" || c.Token != "secret" || c.ClusterCIDR != "10.42.0.0/16" || len(c.KubeletArg) != 1 {
		t.Errorf("%+v", c)
	}
}

func TestReadConfigRefusesUnknownKeys(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	write(t, file, "node-ipp: 10.0.0.2\n")
	if _, err := readConfig(file); err == nil || !strings.Contains(err.Error(), "node-ipp") || !strings.Contains(err.Error(), file) {
		t.Errorf("%v, want the file and the key", err)
	}
}

func TestReadConfigWithoutAFileHasDefaults(t *testing.T) {
	c, err := readConfig(filepath.Join(t.TempDir(), "none.yaml"))
	if err != nil || c.ServiceCIDR != "10.43.0.0/16" || c.NodeName == "" {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestValidate(t *testing.T) {
	good := defaults()
	good.NodeIP = "10.0.0.2"
	for _, row := range []struct {
		name   string
		agent  bool
		change func(*Config)
		want   string
	}{
		{"a server", false, func(*Config) {}, ""},
		{"an agent", true, func(c *Config) { c.Server, c.Token = "https://10.0.0.1:6443", "t" }, ""},
		{"no address", false, func(c *Config) { c.NodeIP = "" }, "node-ip: "},
		{"ranges that overlap", false, func(c *Config) { c.ServiceCIDR, c.ClusterDNS = "10.42.128.0/17", "10.42.128.10" }, "overlaps cluster-cidr"},
		{"no range", false, func(c *Config) { c.ClusterCIDR = "10.42" }, "cluster-cidr: \"10.42\""},
		{"a range for one node", false, func(c *Config) { c.ClusterCIDR = "10.42.0.0/24" }, "no room"},
		{"a DNS address elsewhere", false, func(c *Config) { c.ClusterDNS = "10.44.0.10" }, "cluster-dns"},
		{"a second server", false, func(c *Config) { c.Server = "https://10.0.0.1:6443" }, "one server"},
		{"an agent without a server", true, func(c *Config) { c.Token = "t" }, "server: "},
		{"an agent without a token", true, func(c *Config) { c.Server = "https://10.0.0.1:6443" }, "token: "},
	} {
		c := good
		row.change(&c)
		err := c.validate(row.agent)
		if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%s: %v, want %q", row.name, err, row.want)
		}
	}
}

func TestTheUsersFlagsComeLast(t *testing.T) {
	c := defaults()
	c.KubeletArg, c.NodeLabel = []string{"--max-pods=50"}, []string{"a=b", "c=d"}
	args := c.kubeletArgs()
	if args[0] != "kubelet" || args[len(args)-1] != "--max-pods=50" || !strings.Contains(strings.Join(args, " "), "--node-labels=a=b,c=d") {
		t.Errorf("%q", args)
	}
}

func TestAPIHosts(t *testing.T) {
	c := defaults()
	c.NodeName, c.NodeIP, c.TLSSAN = "server", "10.0.0.1", []string{"lab.example"}
	hosts := " " + strings.Join(c.apiHosts(), " ") + " "
	for _, want := range []string{"10.43.0.1", "server", "10.0.0.1", "lab.example", "kubernetes.default.svc.cluster.local"} {
		if !strings.Contains(hosts, " "+want+" ") {
			t.Errorf("%s is not among%s", want, hosts)
		}
	}
}
