package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"
)

const apiReady = 2 * time.Minute

func newServerCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Run the control plane, and this node's parts",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := readConfig(file)
			if err != nil {
				return err
			}
			if err := c.validate(false); err != nil {
				return err
			}
			return serve(cmd.Context(), c)
		},
	}
	configFlag(cmd, &file)
	return cmd
}

func configFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVarP(file, "config", "c", "/etc/labkube/config.yaml", "the configuration; files of the folder with .d appended come after it")
}

// serve runs a server until ctx ends.
func serve(ctx context.Context, c Config) error {
	authorities, err := c.writePKI()
	if err != nil {
		return err
	}
	agentPassword, err := c.writeTokens(authorities["server-ca"])
	if err != nil {
		return err
	}
	s := newSupervisor(ctx)
	defer leave(s)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	part := func(args []string) process { return process{name: args[0], path: self, args: args} }
	s.keep(part(c.etcdArgs()))
	s.keep(part(c.apiServerArgs()))
	if err := c.awaitAPI(ctx); err != nil {
		return err
	}
	s.keep(part(c.controllerArgs()))
	s.keep(part(c.schedulerArgs()))
	if err := c.startAddons(ctx, s, authorities["server-ca"]); err != nil {
		return err
	}
	stop, err := c.startJoin(authorities, agentPassword)
	if err != nil {
		return err
	}
	defer stop()
	if err := c.writeAdmin(authorities["server-ca"]); err != nil {
		return err
	}
	if !c.DisableAgent {
		server := fmt.Sprintf("https://%s:%d", c.NodeIP, apiPort)
		t := token{hashOf(authorities["server-ca"].pem), "node", agentPassword}
		if err := runNode(ctx, c, s, server, t); err != nil {
			return err
		}
	}
	notifyReady()
	<-ctx.Done()
	return nil
}

func notifyReady() {
	log.Print("ready")
	if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
		log.Printf("tell systemd: %v", err)
	}
}

// writePKI makes the authorities once, and the certificates anew.
func (c Config) writePKI() (map[string]*authority, error) {
	dir := c.pki("")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	authorities := map[string]*authority{}
	for _, name := range []string{"server-ca", "client-ca", "request-ca"} {
		a, err := loadAuthority(dir, name)
		if err != nil {
			return nil, err
		}
		authorities[name] = a
	}
	if err := keepKey(dir, "service-account"); err != nil {
		return nil, err
	}
	api := fmt.Sprintf("https://127.0.0.1:%d", apiPort)
	for _, cert := range []struct {
		authority, name string
		subject         subject
		client          bool // of the API server: with a kubeconfig
	}{
		{"server-ca", "apiserver", subject{name: "kube-apiserver", hosts: c.apiHosts()}, false},
		{"server-ca", "metrics-server", subject{name: "metrics-server", hosts: []string{"metrics-server.kube-system.svc"}}, false},
		{"client-ca", "apiserver-kubelet", subject{name: "labkube:apiserver-kubelet", group: "system:masters"}, false},
		{"request-ca", "front-proxy", subject{name: "front-proxy"}, false},
		{"client-ca", "admin", subject{name: "labkube:admin", group: "system:masters"}, true},
		{"client-ca", "controller-manager", subject{name: "system:kube-controller-manager"}, true},
		{"client-ca", "scheduler", subject{name: "system:kube-scheduler"}, true},
		{"client-ca", "coredns", subject{name: "labkube:coredns"}, true},
		{"client-ca", "metrics-client", subject{name: "labkube:metrics-server"}, true},
	} {
		if err := authorities[cert.authority].write(dir, cert.name, cert.subject); err != nil {
			return nil, err
		}
		if !cert.client {
			continue
		}
		if err := c.writeKubeconfig(c.pki(cert.name+".kubeconfig"), cert.name, api, authorities["server-ca"], 0o600); err != nil {
			return nil, err
		}
	}
	return authorities, c.writeEncryption()
}

// writeKubeconfig is a kubeconfig with a certificate of the server's folder.
func (c Config) writeKubeconfig(path, name, server string, ca *authority, mode os.FileMode) error {
	cert, err := os.ReadFile(c.pki(name + ".crt"))
	if err != nil {
		return err
	}
	key, err := os.ReadFile(c.pki(name + ".key"))
	if err != nil {
		return err
	}
	return writeRendered(path, "kubeconfig", mode, newKubeconfig(server, ca.pem, cert, key))
}

// writeEncryption makes the key of the secrets once: without it they are lost.
func (c Config) writeEncryption() error {
	file := c.pki("encryption.yaml")
	if _, err := os.Stat(file); err == nil || !c.SecretsEncryption {
		return nil
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails: crypto/rand
	return writeRendered(file, "encryption.yaml", 0o600, base64.StdEncoding.EncodeToString(key))
}

// writeAdmin is the kubeconfig of the machine's owner.
func (c Config) writeAdmin(ca *authority) error {
	mode, err := strconv.ParseUint(c.WriteKubeconfigMode, 8, 32)
	if err != nil {
		return fmt.Errorf("write-kubeconfig-mode: %q is no octal mode such as 0600", c.WriteKubeconfigMode)
	}
	server := fmt.Sprintf("https://%s:%d", c.NodeIP, apiPort)
	return c.writeKubeconfig(c.WriteKubeconfig, "admin", server, ca, os.FileMode(mode))
}

// writeTokens writes the whole tokens to server/, as k3s does. A password that was
// once written stays: the nodes have it.
func (c Config) writeTokens(ca *authority) (agentPassword string, err error) {
	password, err := c.keepPassword("token", c.Token)
	if err != nil {
		return "", err
	}
	agentPassword = password
	if c.AgentToken != "" {
		if agentPassword, err = c.keepPassword("agent-token", c.AgentToken); err != nil {
			return "", err
		}
	}
	file := filepath.Join(c.DataDir, "server", "node-token")
	return agentPassword, os.WriteFile(file, []byte(token{hashOf(ca.pem), "node", agentPassword}.String()+"\n"), 0o600)
}

// keepPassword is the one that the file holds, else the configured one, else new.
func (c Config) keepPassword(name, configured string) (string, error) {
	file := filepath.Join(c.DataDir, "server", name)
	text, err := os.ReadFile(file)
	if err == nil {
		kept := strings.TrimSpace(string(text))
		if configured != "" && configured != kept {
			return "", fmt.Errorf("%s: differs from %s, which nodes have joined with; restore it, or remove %s and join them anew", name, file, file)
		}
		return kept, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if configured == "" {
		configured = newPassword()
	}
	return configured, os.WriteFile(file, []byte(configured+"\n"), 0o600)
}

// awaitAPI waits until the API server says that it is ready.
func (c Config) awaitAPI(ctx context.Context) error {
	client, err := c.apiClient()
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	err = until(ctx, apiReady, 100*time.Millisecond, func() error {
		_, err := get(ctx, client, fmt.Sprintf("https://127.0.0.1:%d/readyz", apiPort))
		return err
	})
	if err != nil {
		return fmt.Errorf("the API server is not ready: %w", err)
	}
	return nil
}

func (c Config) apiClient() (*http.Client, error) {
	ca, err := os.ReadFile(c.pki("server-ca.crt"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	cert, err := tls.LoadX509KeyPair(c.pki("admin.crt"), c.pki("admin.key"))
	if err != nil {
		return nil, err
	}
	return &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
	}}, nil
}

// startJoin serves what nodes join with.
func (c Config) startJoin(authorities map[string]*authority, password string) (stop func(), err error) {
	cert, err := tls.LoadX509KeyPair(c.pki("apiserver.crt"), c.pki("apiserver.key"))
	if err != nil {
		return nil, err
	}
	listener, err := tls.Listen("tcp", fmt.Sprintf(":%d", joinPort), &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12})
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: joinHandler(c, authorities, password), ReadHeaderTimeout: 5 * time.Second}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Printf("serve joining nodes: %v", err)
		}
	}()
	return func() { _ = server.Close() }, nil
}

// startAddons runs the cluster DNS and the metrics API beside the API server, and
// tells it where they are.
func (c Config) startAddons(ctx context.Context, s *supervisor, ca *authority) error {
	values := map[string]any{
		"ClusterDNS": c.ClusterDNS, "ClusterDomain": c.ClusterDomain, "NodeIP": c.NodeIP, "Port": dnsPort,
		"Kubeconfig": c.pki("coredns.kubeconfig"), "Upstream": c.upstream(), "CA": base64.StdEncoding.EncodeToString(ca.pem),
	}
	if !c.disabled("coredns") {
		program, err := beside("coredns")
		if err != nil {
			return err
		}
		corefile := filepath.Join(c.DataDir, "server", "Corefile")
		if err := writeRendered(corefile, "Corefile", 0o644, values); err != nil {
			return err
		}
		if err := c.apply(ctx, "dns.yaml", values); err != nil {
			return err
		}
		s.keep(process{name: "coredns", path: program, args: []string{"-conf", corefile}})
	}
	if !c.disabled("metrics-server") {
		program, err := beside("metrics-server")
		if err != nil {
			return err
		}
		values["Port"] = metricsPort
		if err := c.apply(ctx, "metrics.yaml", values); err != nil {
			return err
		}
		s.keep(process{name: "metrics-server", path: program, args: c.metricsServerArgs()})
	}
	return nil
}

// apply makes the objects of a rendered file what they should be.
func (c Config) apply(ctx context.Context, name string, values any) error {
	text, err := render(name, values)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return until(ctx, apiReady, time.Second, func() error { // kube-system is made after the API is ready
		cmd := exec.CommandContext(ctx, self, "kubectl", "--kubeconfig", c.pki("admin.kubeconfig"), "apply", "--server-side", "--force-conflicts", "--field-manager=labkube", "-f", "-")
		cmd.Stdin = strings.NewReader(string(text))
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apply %s: %w: %s", name, err, strings.TrimSpace(string(out)))
		}
		return nil
	})
}
