package sample

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

const (
	headerTimeout = 10 * time.Second // an API server answers a list or begins a watch within it
	pingEvery     = 5 * time.Second  // a connection that died is known after two of them
	closeIdle     = time.Minute      // a connection whose watches have ended
)

// kubeconfig is what the reader needs of such a file: one way to an API server.
type kubeconfig struct {
	CurrentContext string `yaml:"current-context"`
	Contexts       []struct {
		Name    string `yaml:"name"`
		Context struct {
			Cluster string `yaml:"cluster"`
			User    string `yaml:"user"`
		} `yaml:"context"`
	} `yaml:"contexts"`
	Clusters []struct {
		Name    string      `yaml:"name"`
		Cluster kubeCluster `yaml:"cluster"`
	} `yaml:"clusters"`
	Users []struct {
		Name string   `yaml:"name"`
		User kubeUser `yaml:"user"`
	} `yaml:"users"`
}

type kubeCluster struct {
	Server        string `yaml:"server"`
	CAData        string `yaml:"certificate-authority-data"` // base64 of PEM
	CAFile        string `yaml:"certificate-authority"`
	TLSServerName string `yaml:"tls-server-name"`
	Insecure      bool   `yaml:"insecure-skip-tls-verify"`
}

type kubeUser struct {
	Token    string `yaml:"token"`
	CertData string `yaml:"client-certificate-data"` // base64 of PEM
	KeyData  string `yaml:"client-key-data"`
	CertFile string `yaml:"client-certificate"`
	KeyFile  string `yaml:"client-key"`
}

// apiServer is a Kubernetes API and who asks it.
type apiServer struct {
	base   string // https://HOST:PORT
	token  string // "" with a client certificate
	client *http.Client
	retry  time.Duration // between two attempts
}

// readKubeconfig makes a client of a kubeconfig's current context.
func readKubeconfig(path string) (*apiServer, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	api, err := newAPIServer(raw)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", path, err)
	}
	return api, nil
}

func newAPIServer(raw []byte) (*apiServer, error) {
	var k kubeconfig
	if err := yaml.Unmarshal(raw, &k); err != nil {
		return nil, errors.New("is no YAML of a kubeconfig") // the error would quote its secrets
	}
	cluster, user, err := k.current()
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(cluster.Server)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("server %q: want https://HOST:PORT", cluster.Server)
	}
	if cluster.Insecure {
		return nil, errors.New("insecure-skip-tls-verify: its server would not be checked; give certificate-authority-data")
	}
	settings, err := clientTLS(cluster, user)
	if err != nil {
		return nil, err
	}
	if user.Token == "" && len(settings.Certificates) == 0 {
		return nil, errors.New("its user has neither a token nor a client certificate")
	}
	transport := &http.Transport{
		TLSClientConfig: settings, ForceAttemptHTTP2: true, TLSHandshakeTimeout: headerTimeout, ResponseHeaderTimeout: headerTimeout,
		IdleConnTimeout: closeIdle,
		HTTP2:           &http.HTTP2Config{SendPingTimeout: pingEvery, PingTimeout: pingEvery},
	}
	return &apiServer{strings.TrimSuffix(cluster.Server, "/"), user.Token, &http.Client{Transport: transport}, retryAfter}, nil
}

// current are the cluster and the user of the current context.
func (k kubeconfig) current() (kubeCluster, kubeUser, error) {
	for _, c := range k.Contexts {
		if c.Name != k.CurrentContext {
			continue
		}
		for _, cluster := range k.Clusters {
			for _, user := range k.Users {
				if cluster.Name == c.Context.Cluster && user.Name == c.Context.User {
					return cluster.Cluster, user.User, nil
				}
			}
		}
	}
	return kubeCluster{}, kubeUser{}, fmt.Errorf("current-context %q names no context with a cluster and a user", k.CurrentContext)
}

func clientTLS(cluster kubeCluster, user kubeUser) (*tls.Config, error) {
	ca, err := pemOf(cluster.CAData, cluster.CAFile)
	if err != nil {
		return nil, fmt.Errorf("certificate-authority: %w", err)
	}
	settings := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: cluster.TLSServerName, RootCAs: x509.NewCertPool()}
	if !settings.RootCAs.AppendCertsFromPEM(ca) {
		return nil, errors.New("certificate-authority: no certificate in it")
	}
	if user.CertData+user.CertFile == "" {
		return settings, nil
	}
	cert, err := pemOf(user.CertData, user.CertFile)
	if err != nil {
		return nil, fmt.Errorf("client-certificate: %w", err)
	}
	key, err := pemOf(user.KeyData, user.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("client-key: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("client-certificate: %w", err)
	}
	settings.Certificates = []tls.Certificate{pair}
	return settings, nil
}

// pemOf is PEM text given in base64, or in a file.
func pemOf(data, file string) ([]byte, error) {
	if data == "" {
		return os.ReadFile(file)
	}
	return base64.StdEncoding.DecodeString(data)
}
