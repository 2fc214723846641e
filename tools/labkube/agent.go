package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

const (
	joinPatience  = 10 * time.Minute // for a server that comes up later
	readyPatience = 2 * time.Minute
	pauseImage    = "labkube.local/pause:1"
	containerdRun = "/run/labkube/containerd"
	containerdAt  = "/run/labkube/containerd/containerd.sock"
)

func newAgentCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Run this node's parts, and join them to a server",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := readConfig(file)
			if err != nil {
				return err
			}
			if err := c.validate(true); err != nil {
				return err
			}
			t, err := parseToken(c.Token)
			if err != nil {
				return err
			}
			s := newSupervisor(cmd.Context())
			defer leave(s)
			if err := runNode(cmd.Context(), c, s, c.Server, t); err != nil {
				return err
			}
			notifyReady()
			<-cmd.Context().Done()
			return nil
		},
	}
	configFlag(cmd, &file)
	return cmd
}

// runNode joins and starts the node's parts. It returns when the node is ready for
// pods; the parts go on under the supervisor.
func runNode(ctx context.Context, c Config, s *supervisor, server string, t token) error {
	var answer joinAnswer
	said := ""
	err := until(ctx, joinPatience, time.Second, func() (err error) {
		answer, err = joinServer(ctx, c, server, t)
		if err != nil && err.Error() != said {
			said = err.Error()
			log.Printf("join: %v; asking again", err)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("join: %w", err)
	}
	c.ClusterCIDR, c.ClusterDNS, c.ClusterDomain = answer.ClusterCIDR, answer.ClusterDNS, answer.ClusterDomain
	if err := prepareMachine(); err != nil {
		return err
	}
	if err := c.writeNodeFiles(); err != nil {
		return err
	}
	if err := startContainerd(ctx, c, s); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	s.keep(process{name: "kubelet", path: self, args: c.kubeletArgs()})
	s.keep(process{name: "kube-proxy", path: self, args: c.proxyArgs()})
	return c.joinNetwork(ctx)
}

// resolvConf is the file that says whom pods ask for names, "" where there is none.
func (c Config) resolvConf() string {
	file := c.ResolvConf
	if file == "" {
		file = "/etc/resolv.conf"
	}
	if _, err := os.Stat(file); err != nil {
		return ""
	}
	return file
}

// upstream is resolvConf when it names a server: CoreDNS does not start without.
func (c Config) upstream() string {
	file := c.resolvConf()
	text, _ := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "nameserver" {
			return file
		}
	}
	return ""
}

// writeNodeFiles renders what the node's parts read.
func (c Config) writeNodeFiles() error {
	runc, err := beside("runc")
	if err != nil {
		return err
	}
	cni, err := cniPlugins()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.agentDir("etc/kubelet.conf.d"), 0o755); err != nil {
		return err
	}
	values := map[string]any{
		"Run": containerdRun, "Socket": containerdAt, "Pause": pauseImage, "Runc": runc, "CNIBin": cni, "CNIConf": c.agentDir("cni"),
		"CgroupRoot": cgroupRoot, "Dir": c.agentDir(""), "NodeName": c.NodeName, "ResolvConf": c.resolvConf(),
		"ClusterCIDR": c.ClusterCIDR, "ClusterDNS": c.ClusterDNS, "ClusterDomain": c.ClusterDomain,
	}
	for _, name := range []string{"containerd.toml", "kubelet.yaml", "kube-proxy.yaml"} {
		if err := writeRendered(c.agentDir(name), name, 0o644, values); err != nil {
			return err
		}
	}
	return nil
}

// cniPlugins is the folder of the CNI plugins: beside this program, or Debian's.
func cniPlugins() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	for _, dir := range []string{filepath.Join(filepath.Dir(self), "cni"), "/usr/lib/cni", "/opt/cni/bin"} {
		if _, err := os.Stat(filepath.Join(dir, "ptp")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("no CNI plugins: install the package containernetworking-plugins")
}

// startContainerd runs containerd and imports the images of the node's folder, the
// pause image among them.
func startContainerd(ctx context.Context, c Config, s *supervisor) error {
	containerd, err := beside("containerd")
	if err != nil {
		return err
	}
	path := filepath.Dir(containerd) + ":" + os.Getenv("PATH") // its shim is beside it
	s.keep(process{
		name: "containerd", path: containerd, args: []string{"--config", c.agentDir("containerd.toml"), "--log-level", "warn"},
		env: []string{"PATH=" + path},
	})
	if err := until(ctx, readyPatience, 100*time.Millisecond, func() error { return ctr(ctx, "version") }); err != nil {
		return fmt.Errorf("containerd is not ready: %w", err)
	}
	return c.importImages(ctx)
}
