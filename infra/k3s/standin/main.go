// Command standin stands for k3s on the machines of a test. It checks the files
// that it is given as k3s would use them, joins as k3s does, remembers the nodes and
// answers what lab's scripts ask kubectl. It runs no pods, and speaks HTTP where k3s
// speaks HTTPS.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// version is set by the test that builds it.
var version = "v0.0.0+k3s0"

const (
	data  = "/var/lib/rancher/k3s"
	admin = "/etc/rancher/k3s/k3s.yaml"
)

func main() {
	log.SetFlags(0)
	args := os.Args[1:]
	err := fmt.Errorf("unknown call %q", args)
	switch {
	case len(args) == 1 && args[0] == "--version":
		fmt.Printf("k3s version %s (standin)\ngo version %s\n", version, runtime.Version())
		return
	case len(args) == 3 && (args[0] == "server" || args[0] == "agent") && args[1] == "--config":
		err = run(args[0], args[2])
	case len(args) > 3 && args[0] == "kubectl" && args[1] == "--kubeconfig":
		err = kubectl(args[2], args[3:])
	}
	if err != nil {
		log.Fatal(err)
	}
}

// run is a node until it is killed.
func run(mode, file string) error {
	c, err := readConfig(mode, file)
	if err != nil {
		return err
	}
	if err := c.check(mode); err != nil {
		return err
	}
	kubelet, err := net.Listen("tcp", "127.0.0.1:10248")
	if err != nil {
		return err
	}
	defer kubelet.Close()
	switch {
	case mode == "agent":
		err = errors.Join(join(c), writeKubeconfig(data+"/agent/kubelet.kubeconfig", c.Server, "node:"+c.NodeName))
	case c.Server != "":
		err = errors.Join(join(c), writeKubeconfig(admin, c.Server, "admin"))
	default:
		err = serve(c)
	}
	if err != nil {
		return err
	}
	log.Printf("%s %s runs as %s", version, c.NodeName, mode)
	notify()
	// To wait for nothing would end it as a deadlock, once its last connection to
	// the server is gone.
	return http.Serve(kubelet, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }))
}

// notify tells systemd that it is ready.
func notify() {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	if conn, err := net.Dial("unixgram", path); err == nil {
		fmt.Fprint(conn, "READY=1")
		conn.Close()
	}
}

// serve starts the first server.
func serve(c config) error {
	ca, err := keep(data+"/server/tls/server-ca.crt", fmt.Sprintf("a CA of %d\n", time.Now().UnixNano()))
	if err != nil {
		return err
	}
	token, err := keep(data+"/server/passwd", c.Token)
	if err != nil {
		return err
	}
	if token != c.Token {
		return errors.New("the data can't be read with this token")
	}
	s, err := newServer(c, ca)
	if err != nil {
		return err
	}
	if err := s.register(c.NodeName, version); err != nil {
		return err
	}
	node := fmt.Sprintf("K10%x::server:%s\n", sha256.Sum256([]byte(ca)), c.Token)
	if err := os.WriteFile(data+"/server/node-token", []byte(node), 0o600); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", ":6443")
	if err != nil {
		return err
	}
	go func() { log.Fatal(http.Serve(listener, s.handler())) }()
	return writeKubeconfig(admin, "https://127.0.0.1:6443", "admin")
}

// keep is what a file holds, or what is given, which it holds from then on.
func keep(path, text string) (string, error) {
	if kept, err := os.ReadFile(path); err == nil {
		return string(kept), nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	return text, os.WriteFile(path, []byte(text), 0o600)
}

// join checks the server by the token's hash and becomes one of its nodes.
func join(c config) error {
	parts := wholeToken.FindStringSubmatch(c.Token)
	server := strings.Replace(c.Server, "https://", "http://", 1)
	deadline := time.Now().Add(time.Minute)
	for {
		ca, err := ask(http.MethodGet, server+"/cacerts", "", "", nil)
		if err == nil && fmt.Sprintf("%x", sha256.Sum256(ca)) != parts[1] {
			return errors.New("the server's CA is not the token's")
		}
		if err == nil {
			_, err = ask(http.MethodPost, server+"/register", parts[2], parts[3], map[string]string{"name": c.NodeName, "version": version})
		}
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// ask is the body of an answer.
func ask(method, url, user, password string, body any) ([]byte, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequest(method, url, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	r.SetBasicAuth(user, password)
	client := &http.Client{Timeout: 5 * time.Second}
	answer, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	out, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(strings.TrimSpace(string(out)))
	}
	return out, err
}

// kubeconfig has what the real one has; the client's key is who it is.
type kubeconfig struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Clusters   []struct {
		Name    string            `yaml:"name"`
		Cluster map[string]string `yaml:"cluster"`
	} `yaml:"clusters"`
	Users []struct {
		Name string            `yaml:"name"`
		User map[string]string `yaml:"user"`
	} `yaml:"users"`
	Contexts []struct {
		Name    string            `yaml:"name"`
		Context map[string]string `yaml:"context"`
	} `yaml:"contexts"`
	CurrentContext string `yaml:"current-context"`
}

func writeKubeconfig(path, server, user string) error {
	k := kubeconfig{APIVersion: "v1", Kind: "Config", CurrentContext: "default"}
	encode := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	k.Clusters = append(k.Clusters, struct {
		Name    string            `yaml:"name"`
		Cluster map[string]string `yaml:"cluster"`
	}{"default", map[string]string{"server": server, "certificate-authority-data": encode("ca")}})
	k.Users = append(k.Users, struct {
		Name string            `yaml:"name"`
		User map[string]string `yaml:"user"`
	}{"default", map[string]string{"client-certificate-data": encode("certificate"), "client-key-data": encode(user)}})
	k.Contexts = append(k.Contexts, struct {
		Name    string            `yaml:"name"`
		Context map[string]string `yaml:"context"`
	}{"default", map[string]string{"cluster": "default", "user": "default"}})
	text, err := yaml.Marshal(k)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

// kubectl asks the server of a kubeconfig.
func kubectl(file string, args []string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var k kubeconfig
	if err := yaml.Unmarshal(text, &k); err != nil {
		return err
	}
	user, err := base64.StdEncoding.DecodeString(k.Users[0].User["client-key-data"])
	if err != nil {
		return err
	}
	server := strings.Replace(k.Clusters[0].Cluster["server"], "https://", "http://", 1)
	out, err := ask(http.MethodPost, server+"/kubectl", string(user), "", args)
	if err == nil {
		fmt.Print(string(out))
	}
	return err
}
