package infra

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"lab/config"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares text with a file of testdata.
func golden(t *testing.T, path, got string) {
	t.Helper()
	path = filepath.Join("testdata", path)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got); run go test ./infra -update if that is meant\n%s", path, diff)
	}
}

// asJSON is a YAML value as Pulumi hands it to the program.
func asJSON(t *testing.T, value any) []byte {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestRejectedConfigsSayWhatToFix(t *testing.T) {
	fixtures, err := filepath.Glob("testdata/rejected/*.yaml")
	if err != nil || len(fixtures) < 20 {
		t.Fatalf("%d fixtures, %v", len(fixtures), err)
	}
	for _, path := range fixtures {
		name := strings.TrimSuffix(filepath.Base(path), ".yaml")
		t.Run(name, func(t *testing.T) {
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var value any
			if err := yaml.Unmarshal(raw, &value); err != nil {
				t.Fatal(err)
			}
			_, problems := LoadConfig(asJSON(t, value))
			err = config.Error(problems, "Pulumi.test.yaml")
			if err == nil {
				t.Fatal("no problem was found")
			}
			golden(t, "rejected/"+name+".golden", err.Error()+"\n")
		})
	}
}

// stackConfig is lab:infra of a stack in the repository.
func stackConfig(t *testing.T, stack string) Config {
	t.Helper()
	raw, err := os.ReadFile("../Pulumi." + stack + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Config map[string]any }
	if err := yaml.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	c, problems := LoadConfig(asJSON(t, file.Config["lab:infra"]))
	if err := config.Error(problems, "Pulumi."+stack+".yaml"); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestStacksOfTheRepositoryAreAccepted(t *testing.T) {
	for stack, kind := range map[string]string{"local": KindNspawn, "lab": KindLibvirt, "pi": KindSSH} {
		if c := stackConfig(t, stack); c.Kind() != kind {
			t.Errorf("stack %s: kind %s, want %s", stack, c.Kind(), kind)
		}
	}
	var cpus float64
	for _, h := range stackConfig(t, "local").Hosts {
		cpus += h.CPUs
	}
	if cpus > 2 {
		t.Errorf("the caps of the stack local are %g CPUs in all, above the 2 of a small machine", cpus)
	}
}
