package k3s

import (
	"bytes"
	"fmt"

	"gopkg.in/yaml.v3"
)

// Pin is a version with the sums of its files, by architecture.
type Pin struct {
	Version string
	Binary  map[string]string
	Images  map[string]string
}

// WritePin sets the version and its sums in the text of a stack's file, and leaves
// all else of it: comments, other keys, their order. The sums of the images are
// written only where the stack names an archive of them. A stack without a cluster
// gets one of k3s.
func WritePin(stack string, p Pin) (string, error) {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(stack), &document); err != nil {
		return "", fmt.Errorf("read the stack's file: %w", err)
	}
	if len(document.Content) == 0 {
		document = yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{{Kind: yaml.MappingNode}}}
	}
	cluster := document.Content[0]
	for _, key := range []string{"config", "lab:infra", "cluster"} {
		next, err := below(cluster, key)
		if err != nil {
			return "", err
		}
		cluster = next
	}
	if now := value(cluster, "distribution"); now == nil || now.Value == "none" {
		set(cluster, "distribution", text("k3s"))
	} else if now.Value != "k3s" {
		return "", fmt.Errorf("the stack's cluster is %s: set infra.cluster.distribution to k3s first", now.Value)
	}
	set(cluster, "version", text(p.Version))
	set(cluster, "sha256", sums(p.Binary))
	if images := value(cluster, "images"); images != nil && value(images, "path") != nil {
		set(images, "sha256", sums(p.Images))
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(&document); err != nil {
		return "", fmt.Errorf("write the stack's file: %w", err)
	}
	return b.String(), nil
}

// below is the mapping under a key, made if it is not there.
func below(mapping *yaml.Node, key string) (*yaml.Node, error) {
	if mapping.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("read the stack's file: what should hold %s is no mapping", key)
	}
	if next := value(mapping, key); next != nil {
		if next.Kind != yaml.MappingNode {
			return nil, fmt.Errorf("read the stack's file: %s is no mapping", key)
		}
		return next, nil
	}
	next := &yaml.Node{Kind: yaml.MappingNode}
	set(mapping, key, next)
	return next, nil
}

func value(mapping *yaml.Node, key string) *yaml.Node {
	if mapping.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

func set(mapping *yaml.Node, key string, to *yaml.Node) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			to.LineComment = mapping.Content[i+1].LineComment
			mapping.Content[i+1] = to
			return
		}
	}
	mapping.Content = append(mapping.Content, text(key), to)
}

func text(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s} }

func sums(of map[string]string) *yaml.Node {
	list := &yaml.Node{Kind: yaml.MappingNode}
	for _, arch := range Archs {
		if of[arch] != "" {
			list.Content = append(list.Content, text(arch), text(of[arch]))
		}
	}
	return list
}
