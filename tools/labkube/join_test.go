package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// testServer is a server's join endpoint with authorities of its own.
func testServer(t *testing.T) (at string, whole token, authorities map[string]*authority) {
	t.Helper()
	dir := t.TempDir()
	authorities = map[string]*authority{}
	for _, name := range []string{"server-ca", "client-ca"} {
		a, err := loadAuthority(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		authorities[name] = a
	}
	if err := authorities["server-ca"].write(dir, "apiserver", subject{name: "kube-apiserver", hosts: []string{"127.0.0.1"}}); err != nil {
		t.Fatal(err)
	}
	cert, err := tls.LoadX509KeyPair(filepath.Join(dir, "apiserver.crt"), filepath.Join(dir, "apiserver.key"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(joinHandler(defaults(), authorities, "sesame"))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL, token{hashOf(authorities["server-ca"].pem), "node", "sesame"}, authorities
}

func testNodeConfig(t *testing.T) Config {
	c := defaults()
	c.DataDir, c.NodeName, c.NodeIP = t.TempDir(), "agent-1", "10.0.0.2"
	return c
}

func TestANodeJoins(t *testing.T) {
	at, whole, authorities := testServer(t)
	c := testNodeConfig(t)
	answer, err := joinAt(t.Context(), c, at, "https://10.0.0.1:6443", whole)
	if err != nil {
		t.Fatal(err)
	}
	if answer.ClusterDNS != "10.43.0.10" {
		t.Errorf("%+v", answer)
	}
	pair, err := tls.LoadX509KeyPair(c.agentDir("kubelet.crt"), c.agentDir("kubelet.key"))
	if err != nil {
		t.Fatal(err)
	}
	if s := pair.Leaf.Subject; s.CommonName != "system:node:agent-1" || strings.Join(s.Organization, "") != "system:nodes" {
		t.Errorf("the kubelet is %v", s)
	}
	clients, servers := x509.NewCertPool(), x509.NewCertPool()
	clients.AddCert(authorities["client-ca"].cert)
	servers.AddCert(authorities["server-ca"].cert)
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: clients, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Error(err)
	}
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: servers}); err == nil {
		t.Error("a kubelet's client certificate is of the servers' authority")
	}
	if serving, err := tls.LoadX509KeyPair(c.agentDir("kubelet-serving.crt"), c.agentDir("kubelet-serving.key")); err != nil || serving.Leaf.VerifyHostname("10.0.0.2") != nil {
		t.Errorf("the kubelet's serving certificate: %v", err)
	}
	text, err := os.ReadFile(c.agentDir("kubelet.kubeconfig"))
	if err != nil || !bytes.Contains(text, []byte("server: https://10.0.0.1:6443")) {
		t.Errorf("%s, %v", text, err)
	}
	for _, private := range []string{"kubelet.key", "kubelet-serving.key", "kube-proxy.key", "kubelet.kubeconfig"} {
		if info, err := os.Stat(c.agentDir(private)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v", private, info.Mode(), err)
		}
	}
}

func TestAWrongPasswordIsRefused(t *testing.T) {
	at, whole, _ := testServer(t)
	whole.password = "guess"
	c := testNodeConfig(t)
	if _, err := joinAt(t.Context(), c, at, "https://10.0.0.1:6443", whole); !errors.Is(err, errRefused) {
		t.Errorf("%v, want refused", err)
	}
	if left, _ := os.ReadDir(c.agentDir("")); len(left) > 0 {
		t.Errorf("a refused node has %v", left)
	}
}

// Who answers at the server's address without its CA must not get the password.
func TestAnotherServerDoesNotGetThePassword(t *testing.T) {
	at, _, _ := testServer(t)
	_, whole, _ := testServer(t)
	_, err := joinAt(t.Context(), testNodeConfig(t), at, "https://10.0.0.1:6443", whole)
	if err == nil || !strings.Contains(err.Error(), "not the one that the token was made for") {
		t.Errorf("%v", err)
	}
}

func TestJoinRefuses(t *testing.T) {
	_, _, authorities := testServer(t)
	for _, row := range []struct {
		name string
		ask  joinRequest
		want string
	}{
		{"a name that is a path", joinRequest{Node: "../x", Address: "10.0.0.2"}, "want a name"},
		{"a name as an address", joinRequest{Node: "a", Address: "here"}, "want an IP address"},
		{"no keys", joinRequest{Node: "a", Address: "10.0.0.2"}, "want a public key"},
	} {
		if _, err := join(defaults(), authorities, row.ask); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", row.name, err, row.want)
		}
	}
}

func TestToken(t *testing.T) {
	whole := token{strings.Repeat("ab", 32), "node", "secret"}
	if back, err := parseToken(whole.String() + "\n"); err != nil || back != whole {
		t.Errorf("%+v, %v", back, err)
	}
	for _, bad := range []string{"", "secret", "K10abc::node:secret", whole.String()[:68], "K11" + whole.String()[3:], strings.TrimSuffix(whole.String(), "secret")} {
		if _, err := parseToken(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestAnAuthorityStays(t *testing.T) {
	dir := t.TempDir()
	first, err := loadAuthority(dir, "server-ca")
	if err != nil {
		t.Fatal(err)
	}
	second, err := loadAuthority(dir, "server-ca")
	if err != nil || !bytes.Equal(first.pem, second.pem) || !first.key.Equal(second.key) {
		t.Errorf("a second start has another authority: %v", err)
	}
}

func TestPasswordsStay(t *testing.T) {
	c := testNodeConfig(t)
	if err := os.MkdirAll(filepath.Join(c.DataDir, "server"), 0o700); err != nil {
		t.Fatal(err)
	}
	made, err := c.keepPassword("token", "")
	if err != nil || made == "" {
		t.Fatalf("%q, %v", made, err)
	}
	if again, err := c.keepPassword("token", ""); again != made || err != nil {
		t.Errorf("%q, then %q, %v", made, again, err)
	}
	if _, err := c.keepPassword("token", "another"); err == nil || !strings.Contains(err.Error(), "differs") {
		t.Errorf("%v: another token would lock the nodes out", err)
	}
}
