package loadtest

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
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got); run go test ./loadtest -update if that is meant\n%s", path, diff)
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
	if err != nil || len(fixtures) == 0 {
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

// stackConfig is lab:loadtest of the stack local.
func stackConfig(t *testing.T) Config {
	t.Helper()
	raw, err := os.ReadFile("../Pulumi.local.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Config map[string]any }
	if err := yaml.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	c, problems := LoadConfig(asJSON(t, file.Config["lab:loadtest"]))
	if err := config.Error(problems, "Pulumi.local.yaml"); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestWithoutASectionTheReadsAreOfferedAlike(t *testing.T) {
	c, problems := LoadConfig(nil)
	if len(problems) > 0 || len(c.Scenario.Endpoints) != 5 {
		t.Fatalf("%d endpoints, problems %v", len(c.Scenario.Endpoints), problems)
	}
	for _, e := range c.Scenario.Endpoints {
		if e.Weight != 1 || e.Method != "GET" || !strings.HasPrefix(e.Path, "/api/") {
			t.Errorf("endpoint %+v", e)
		}
	}
}

// Once an endpoint of a stack took what it did not say from a default one.
func TestAStacksEndpointsAreItsOwn(t *testing.T) {
	c, problems := LoadConfig([]byte(`{"scenario": {"endpoints": [{"name": "work", "path": "/work?ms=5", "weight": 2}]}}`))
	if len(problems) > 0 || len(c.Scenario.Endpoints) != 1 {
		t.Fatalf("endpoints %+v, problems %v", c.Scenario.Endpoints, problems)
	}
	if e := c.Scenario.Endpoints[0]; e.Name != "work" || e.Path != "/work?ms=5" || e.Weight != 2 || e.Method != "GET" {
		t.Errorf("endpoint %+v", e)
	}
}
