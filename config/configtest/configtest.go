// Package configtest tests a section of the configuration: its rejected fixtures,
// and the stacks of this repository.
package configtest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"lab/config"
	"lab/golden"
)

// Rejected loads every testdata/rejected/NAME.yaml of the calling package, at
// least fewest of them. Each must have problems, which read as NAME.golden.
func Rejected(t *testing.T, fewest int, load func(raw []byte) []config.Problem) {
	t.Helper()
	RejectedIn(t, "testdata/rejected", fewest, load)
}

// RejectedIn is Rejected with the fixtures of a folder.
func RejectedIn(t *testing.T, folder string, fewest int, load func(raw []byte) []config.Problem) {
	t.Helper()
	fixtures, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil || len(fixtures) < fewest {
		t.Fatalf("%d fixtures, want %d: %v", len(fixtures), fewest, err)
	}
	for _, path := range fixtures {
		name := strings.TrimSuffix(path, ".yaml")
		t.Run(filepath.Base(name), func(t *testing.T) {
			var value any
			readYAML(t, path, &value)
			err := config.Error(load(AsJSON(t, value)), "Pulumi.test.yaml")
			if err == nil {
				t.Fatal("no problem was found")
			}
			golden.Check(t, name+".golden", err.Error()+"\n")
		})
	}
}

// Section is a section of a stack's file in the folder above, as JSON.
func Section(t *testing.T, stack, section string) []byte {
	t.Helper()
	var file struct{ Config map[string]any }
	readYAML(t, "../Pulumi."+stack+".yaml", &file)
	return AsJSON(t, file.Config[section])
}

// SingleMachine is lab:infra of the stack local, as JSON, without its cluster and the
// machines of that: what a test wants that is not about the cluster.
func SingleMachine(t *testing.T) []byte {
	t.Helper()
	var section map[string]any
	if err := json.Unmarshal(Section(t, "local", "lab:infra"), &section); err != nil {
		t.Fatal(err)
	}
	delete(section, "cluster")
	hosts := section["hosts"].([]any)
	section["hosts"] = slices.DeleteFunc(hosts, func(host any) bool {
		return slices.ContainsFunc(host.(map[string]any)["roles"].([]any), func(role any) bool { return role == "server" || role == "agent" })
	})
	return AsJSON(t, section)
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(raw, into); err != nil {
		t.Fatal(err)
	}
}

// AsJSON is a YAML value as Pulumi hands it to the program.
func AsJSON(t *testing.T, value any) []byte {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
