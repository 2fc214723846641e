// Package kubeconfig makes a cluster's kubeconfig this computer's, and merges it
// into the operator's own.
package kubeconfig

import (
	"bytes"
	"errors"
	"fmt"

	"gopkg.in/yaml.v3"
)

// kubeconfig is what of a file a cluster's administrator needs.
type kubeconfig struct {
	APIVersion     string    `yaml:"apiVersion"`
	Kind           string    `yaml:"kind"`
	Clusters       []cluster `yaml:"clusters"`
	Users          []user    `yaml:"users"`
	Contexts       []context `yaml:"contexts"`
	CurrentContext string    `yaml:"current-context"`
}

type cluster struct {
	Name    string `yaml:"name"`
	Cluster struct {
		Server string `yaml:"server"`
		CA     string `yaml:"certificate-authority-data"`
	} `yaml:"cluster"`
}

type user struct {
	Name string `yaml:"name"`
	User struct {
		Certificate string `yaml:"client-certificate-data"`
		Key         string `yaml:"client-key-data"`
	} `yaml:"user"`
}

type context struct {
	Name    string `yaml:"name"`
	Context struct {
		Cluster string `yaml:"cluster"`
		User    string `yaml:"user"`
	} `yaml:"context"`
}

// Rename gives a kubeconfig of one cluster a name of its own, so that it can be
// merged beside others, and the server's URL as this computer reaches it. No text
// stays no text. An error shows nothing of the text, which is a secret.
func Rename(text, name, server string) (string, error) {
	if text == "" {
		return "", nil
	}
	var k kubeconfig
	if err := yaml.Unmarshal([]byte(text), &k); err != nil {
		return "", errors.New("read the cluster's kubeconfig: it is no YAML")
	}
	if len(k.Clusters) != 1 || len(k.Users) != 1 || len(k.Contexts) != 1 {
		return "", fmt.Errorf("read the cluster's kubeconfig: it has %d clusters, %d users and %d contexts, want one of each", len(k.Clusters), len(k.Users), len(k.Contexts))
	}
	if k.Clusters[0].Cluster.CA == "" || k.Users[0].User.Certificate == "" || k.Users[0].User.Key == "" {
		return "", errors.New("read the cluster's kubeconfig: a CA, a client's certificate or its key is missing")
	}
	k.Clusters[0].Name, k.Clusters[0].Cluster.Server = name, server
	k.Users[0].Name, k.Contexts[0].Name, k.CurrentContext = name, name, name
	k.Contexts[0].Context.Cluster, k.Contexts[0].Context.User = name, name
	return encode(k)
}

// Merge lays a lab's kubeconfig into the operator's: entries of the same names are
// replaced, all else stays as it is, comments too. The current context stays, unless
// there was none. An empty own text is a new file.
func Merge(own, lab string) (string, error) {
	into, err := parse(own, "your kubeconfig")
	if err != nil {
		return "", err
	}
	from, err := parse(lab, "the lab's kubeconfig")
	if err != nil {
		return "", err
	}
	for _, key := range []string{"apiVersion", "kind", "current-context"} {
		if value := field(from, key); value != nil && isEmpty(field(into, key)) {
			set(into, key, value)
		}
	}
	for _, key := range []string{"clusters", "users", "contexts"} {
		list := field(into, key)
		if isEmpty(list) {
			list = &yaml.Node{Kind: yaml.SequenceNode}
			set(into, key, list)
		}
		if list.Kind != yaml.SequenceNode {
			return "", fmt.Errorf("read your kubeconfig: %s is no list", key)
		}
		additions := field(from, key)
		if additions == nil {
			continue
		}
		for _, entry := range additions.Content {
			place(list, entry)
		}
	}
	return encode(into)
}

// parse is the mapping of a file.
func parse(text, what string) (*yaml.Node, error) {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		return nil, fmt.Errorf("read %s: it is no YAML", what) // the error may quote a key
	}
	if len(document.Content) == 0 {
		return &yaml.Node{Kind: yaml.MappingNode}, nil
	}
	if document.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("read %s: it is no mapping", what)
	}
	return document.Content[0], nil
}

// field is the value of a mapping's key; nil when it has none.
func field(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

func set(mapping *yaml.Node, key string, value *yaml.Node) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			mapping.Content[i+1] = value
			return
		}
	}
	mapping.Content = append(mapping.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, value)
}

// isEmpty tells whether a value is missing, null, "" or [].
func isEmpty(n *yaml.Node) bool {
	return n == nil || n.Kind == yaml.ScalarNode && (n.Tag == "!!null" || n.Value == "") || n.Kind == yaml.SequenceNode && len(n.Content) == 0
}

// place puts an entry over the one of its name, or at the end.
func place(list, entry *yaml.Node) {
	name := field(entry, "name")
	for i, other := range list.Content {
		if has := field(other, "name"); has != nil && name != nil && has.Value == name.Value {
			list.Content[i] = entry
			return
		}
	}
	list.Content = append(list.Content, entry)
}

func encode(value any) (string, error) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(value); err != nil {
		return "", fmt.Errorf("write a kubeconfig: %w", err)
	}
	return b.String(), nil
}
