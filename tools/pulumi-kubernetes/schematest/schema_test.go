// Package schematest compares what the program declares with the Kubernetes plugin's
// schema. It is beside the plugin, for its test to be linked without it.
package schematest

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// object is a resource of the plugin's schema.
type object struct {
	InputProperties map[string]any
	RequiredInputs  []string
}

// The program declares resources of this plugin by name: every input that it gives has
// to be one, and every input that has to be given has to be there.
func TestTheProgramsInputsAreThePlugins(t *testing.T) {
	var schema struct {
		Provider  object
		Resources map[string]object
	}
	if err := json.Unmarshal(shipped(t, "schema.json"), &schema); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile("../../../workloads/testdata/plugin-inputs")
	if err != nil {
		t.Fatal(err)
	}
	given := map[string][]string{}
	for line := range strings.Lines(string(raw)) {
		token, input, _ := strings.Cut(strings.TrimSpace(line), " ")
		given[token] = append(given[token], input)
	}
	if len(given) < 4 {
		t.Fatalf("%d resources, want the provider, a namespace, a secret and a release", len(given))
	}
	for token, inputs := range given {
		of, ok := schema.Resources[token]
		if token == "pulumi:providers:kubernetes" {
			of, ok = schema.Provider, true
		}
		if !ok {
			t.Errorf("the plugin has no %s", token)
		}
		for _, input := range inputs {
			if _, ok := of.InputProperties[input]; !ok && input != "compat" { // which the SDK alone knows of
				t.Errorf("%s has no input %s", token, input)
			}
		}
		for _, input := range of.RequiredInputs {
			if !slices.Contains(inputs, input) {
				t.Errorf("%s is not given its input %s", token, input)
			}
		}
	}
}

// shipped is a file of the plugin's module.
func shipped(t *testing.T, name string) []byte {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/pulumi/pulumi-kubernetes/provider/v4").Output()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "cmd", "pulumi-resource-kubernetes", name))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
