package workloads

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
		t.Errorf("%s differs (-want +got); run go test ./workloads -update if that is meant\n%s", path, diff)
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
			_, problems := LoadConfig(asJSON(t, value), 100)
			err = config.Error(problems, "Pulumi.test.yaml")
			if err == nil {
				t.Fatal("no problem was found")
			}
			golden(t, "rejected/"+name+".golden", err.Error()+"\n")
		})
	}
}

// stackConfig is lab:workloads of the stack local.
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
	c, problems := LoadConfig(asJSON(t, file.Config["lab:workloads"]), 100)
	if err := config.Error(problems, "Pulumi.local.yaml"); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTheDefaultsAreValidAndNoTextIsThem(t *testing.T) {
	c, problems := LoadConfig(nil, 100)
	if len(problems) > 0 || c != Defaults() {
		t.Errorf("%+v, problems %v", c, problems)
	}
}

func TestTheEnvironmentHasEverySettingAndNoExponent(t *testing.T) {
	c := Defaults()
	c.ThrottleRPS, c.ConnMaxAgeSeconds = 2_000_000, 60
	want := "LISTEN=:8080\nCONN_MAX_AGE_SECONDS=60\nQUERY_SHAPE=join\nCACHE_SECONDS=0\nPOOL_SIZE=20\nTHROTTLE_RPS=2000000\nWORK_ITERATIONS_PER_MS=12000"
	if diff := cmp.Diff(want, c.environment(8080)); diff != "" {
		t.Error(diff)
	}
}
