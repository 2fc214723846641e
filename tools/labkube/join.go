package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

// joinRequest is what a node asks the server for: certificates for its own keys.
type joinRequest struct {
	Node    string            `json:"node"`
	Address string            `json:"address"`
	Keys    map[string]string `json:"keys"` // PEM public key by the names of nodeCertificates
}

// joinAnswer is all that a node needs beyond its own configuration.
type joinAnswer struct {
	ServerCA      string            `json:"serverCA"`
	ClientCA      string            `json:"clientCA"`
	Certificates  map[string]string `json:"certificates"` // PEM, by the names of the request's keys
	ClusterCIDR   string            `json:"clusterCIDR"`
	ClusterDNS    string            `json:"clusterDNS"`
	ClusterDomain string            `json:"clusterDomain"`
}

// nodeCertificates are those of a node: who each is for, and which authority signs.
func nodeCertificates(node, address string) map[string]struct {
	authority string
	subject   subject
} {
	type certificate = struct {
		authority string
		subject   subject
	}
	return map[string]certificate{
		"kubelet":         {"client-ca", subject{name: "system:node:" + node, group: "system:nodes"}},
		"kubelet-serving": {"server-ca", subject{name: "system:node:" + node, group: "system:nodes", hosts: []string{node, address}}},
		"kube-proxy":      {"client-ca", subject{name: "system:kube-proxy"}},
	}
}

// nodeName is a name that Kubernetes takes: RFC 1123, 2.1.
var nodeName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)

// joinHandler serves /cacerts to anyone, and /join to who has the password.
func joinHandler(c Config, authorities map[string]*authority, password string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /cacerts", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(authorities["server-ca"].pem) // the reader is gone: it will ask again
	})
	mux.HandleFunc("POST /join", func(w http.ResponseWriter, r *http.Request) {
		_, given, _ := r.BasicAuth()
		if subtle.ConstantTimeCompare([]byte(given), []byte(password)) != 1 {
			http.Error(w, "wrong token", http.StatusUnauthorized)
			return
		}
		var ask joinRequest
		if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&ask); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer, err := join(c, authorities, ask)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_ = json.NewEncoder(w).Encode(answer)
	})
	return mux
}

func join(c Config, authorities map[string]*authority, ask joinRequest) (joinAnswer, error) {
	answer := joinAnswer{
		ServerCA: string(authorities["server-ca"].pem), ClientCA: string(authorities["client-ca"].pem),
		ClusterCIDR: c.ClusterCIDR, ClusterDNS: c.ClusterDNS, ClusterDomain: c.ClusterDomain,
		Certificates: map[string]string{},
	}
	if !nodeName.MatchString(ask.Node) {
		return answer, fmt.Errorf("node %q: want a name of lower-case letters, digits, dots and dashes", ask.Node)
	}
	if _, err := netip.ParseAddr(ask.Address); err != nil {
		return answer, fmt.Errorf("address %q: want an IP address", ask.Address)
	}
	for name, certificate := range nodeCertificates(ask.Node, ask.Address) {
		block, _ := pem.Decode([]byte(ask.Keys[name]))
		if block == nil {
			return answer, fmt.Errorf("keys.%s: want a public key, PEM", name)
		}
		public, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return answer, fmt.Errorf("keys.%s: %w", name, err)
		}
		signed, err := authorities[certificate.authority].issue(certificate.subject, public)
		if err != nil {
			return answer, err
		}
		answer.Certificates[name] = string(signed)
	}
	return answer, nil
}

// joinServer asks a server for this node's certificates and writes them, with
// their keys, into the node's folder. The server is checked by the token's hash.
func joinServer(ctx context.Context, c Config, server string, t token) (joinAnswer, error) {
	base, err := joinURL(server)
	if err != nil {
		return joinAnswer{}, err
	}
	return joinAt(ctx, c, base, server, t)
}

// joinAt is joinServer with the URL of the join endpoint.
func joinAt(ctx context.Context, c Config, base, server string, t token) (joinAnswer, error) {
	ca, err := get(ctx, &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // nothing is sent, and what comes is checked by its hash
	}}, base+"/cacerts")
	if err != nil {
		return joinAnswer{}, err
	}
	if !t.checks(ca) {
		return joinAnswer{}, fmt.Errorf("%s: its CA is not the one that the token was made for; take the token from that server's file server/node-token", server)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
	ask := joinRequest{Node: c.NodeName, Address: c.NodeIP, Keys: map[string]string{}}
	keys := map[string][]byte{}
	for name := range nodeCertificates(c.NodeName, c.NodeIP) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return joinAnswer{}, err
		}
		public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
		if err != nil {
			return joinAnswer{}, err
		}
		ask.Keys[name] = string(encode("PUBLIC KEY", public))
		if keys[name], err = encodeKey(key); err != nil {
			return joinAnswer{}, err
		}
	}
	answer, err := post(ctx, client, base+"/join", t, ask)
	if err != nil {
		return answer, err
	}
	return answer, writeNode(c, server, answer, keys)
}

// joinURL is the join endpoint of the server whose API is at an URL.
func joinURL(server string) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", err
	}
	return "https://" + net.JoinHostPort(u.Hostname(), strconv.Itoa(joinPort)), nil
}

func get(ctx context.Context, client *http.Client, at string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	return read(client.Do(r))
}

func post(ctx context.Context, client *http.Client, at string, t token, ask joinRequest) (answer joinAnswer, err error) {
	body, err := json.Marshal(ask)
	if err != nil {
		return answer, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at, bytes.NewReader(body))
	if err != nil {
		return answer, err
	}
	r.SetBasicAuth(t.user, t.password)
	text, err := read(client.Do(r))
	if err != nil {
		return answer, err
	}
	return answer, json.Unmarshal(text, &answer)
}

// errRefused is a server's no: asking again changes nothing.
var errRefused = errors.New("refused")

func read(r *http.Response, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	switch {
	case r.StatusCode == http.StatusUnauthorized:
		return nil, fmt.Errorf("%s: %w: wrong token", r.Request.URL, errRefused)
	case r.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s: %s: %s", r.Request.URL, r.Status, bytes.TrimSpace(text))
	}
	return text, nil
}

// writeNode puts the answer into the node's folder.
func writeNode(c Config, server string, answer joinAnswer, keys map[string][]byte) error {
	dir := c.agentDir("")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, text := range map[string]string{"server-ca.crt": answer.ServerCA, "client-ca.crt": answer.ClientCA} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	for name, key := range keys {
		cert := []byte(answer.Certificates[name])
		if err := os.WriteFile(filepath.Join(dir, name+".key"), key, 0o600); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name+".crt"), cert, 0o644); err != nil {
			return err
		}
		if name == "kubelet-serving" {
			continue
		}
		file := filepath.Join(dir, name+".kubeconfig")
		if err := writeRendered(file, "kubeconfig", 0o600, newKubeconfig(server, []byte(answer.ServerCA), cert, key)); err != nil {
			return err
		}
	}
	return nil
}
