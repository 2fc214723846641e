package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

func TestUpstream(t *testing.T) {
	file := filepath.Join(t.TempDir(), "resolv.conf")
	c := Config{ResolvConf: file}
	if got, up := c.resolvConf(), c.upstream(); got != "" || up != "" {
		t.Errorf("without the file: %q, %q", got, up)
	}
	for _, row := range []struct {
		text   string
		serves bool
	}{
		{"", false},
		{"# nameserver 10.0.0.1\nsearch lab\n", false},
		{"nameserver\n", false},
		{"search lab\nnameserver 10.0.0.1\n", true},
	} {
		if err := os.WriteFile(file, []byte(row.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if c.resolvConf() != file || (c.upstream() == file) != row.serves {
			t.Errorf("%q: %q, %q", row.text, c.resolvConf(), c.upstream())
		}
	}
}

func TestTheClusterDNSForwardsOnlyToAServer(t *testing.T) {
	values := map[string]any{"Port": dnsPort, "NodeIP": "10.0.0.1", "ClusterDomain": "cluster.local", "Kubeconfig": "/k", "Upstream": ""}
	text, err := render("Corefile", values)
	if err != nil || strings.Contains(string(text), "forward") {
		t.Errorf("%v\n%s", err, text)
	}
	values["Upstream"] = "/etc/resolv.conf"
	text, err = render("Corefile", values)
	if err != nil || !strings.Contains(string(text), "\n    forward . /etc/resolv.conf\n    cache") {
		t.Errorf("%v\n%s", err, text)
	}
}

// What is rendered is YAML, also where a value is empty.
func TestRenderedFilesAreYAML(t *testing.T) {
	values := map[string]any{
		"ClusterDNS": "10.43.0.10", "ClusterDomain": "cluster.local", "NodeIP": "10.0.0.1", "Port": 1, "CA": "Yg==",
		"Dir": "/d", "CgroupRoot": cgroupRoot, "Socket": "/s", "ResolvConf": "", "NodeName": "n", "ClusterCIDR": "10.42.0.0/16",
	}
	for _, name := range []string{"dns.yaml", "metrics.yaml", "kubelet.yaml", "kube-proxy.yaml"} {
		text, err := render(name, values)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for i, document := range strings.Split(string(text), "\n---\n") {
			var object map[string]any
			if err := yaml.UnmarshalStrict([]byte(document), &object); err != nil || object["kind"] == nil {
				t.Errorf("%s, document %d: %v", name, i, err)
			}
		}
	}
}

func TestAPartDoesNotTellSystemd(t *testing.T) {
	got := partEnv([]string{"PATH=/bin", "NOTIFY_SOCKET=/run/n", "WATCHDOG_USEC=1", "HOME=/root"})
	if !slices.Equal(got, []string{"PATH=/bin", "HOME=/root"}) {
		t.Errorf("%q", got)
	}
}

func TestUntilEndsAtARefusal(t *testing.T) {
	asked := 0
	err := until(t.Context(), time.Hour, time.Nanosecond, func() error {
		if asked++; asked < 3 {
			return errors.New("not yet")
		}
		return errRefused
	})
	if !errors.Is(err, errRefused) || asked != 3 {
		t.Errorf("%v after %d", err, asked)
	}
}
