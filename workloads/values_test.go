package workloads

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"lab/golden"
)

// clusterConfig is a configuration that LoadConfig finds no problem in, changed.
func clusterConfig(t *testing.T, raw string) Config {
	t.Helper()
	c, problems := LoadConfig([]byte(raw), clustered)
	if len(problems) > 0 {
		t.Fatalf("%s: %v", raw, problems)
	}
	return c
}

// What the chart is given; tools/chart renders these very files.
func TestValues(t *testing.T) {
	for name, row := range map[string]struct {
		raw   string
		archs []string
	}{
		"default":        {`{"poolSize":10}`, []string{"amd64"}},
		"largest-pool":   {`{"poolSize":11,"connMaxAgeSeconds":60,"cacheSeconds":30}`, []string{"arm64", "amd64", "arm64"}},
		"no-autoscaler":  {`{"poolSize":10,"web":{"minReplicas":3,"maxReplicas":3},"worker":{"minReplicas":1,"maxReplicas":1}}`, []string{"arm64"}},
		"many-small-web": {`{"poolSize":2,"queryShape":"subquery","throttleRps":1000000,"nodePort":31000,"web":{"minReplicas":1,"maxReplicas":40,"targetCpuRatio":0.555,"requestCpuMilli":20,"limitCpuMilli":1500,"memoryMiB":64}}`, []string{"amd64"}},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := yaml.Marshal(clusterConfig(t, row.raw).values("lab.local/app", "0123456789abcdef", row.archs))
			if err != nil {
				t.Fatal(err)
			}
			golden.Check(t, filepath.Join("testdata", "values", name+".yaml"), string(text))
		})
	}
}

func TestTheWorkersAreGivenTheirOwnPool(t *testing.T) {
	c := clusterConfig(t, `{"poolSize":10}`)
	values := c.values("r", "t", nil)
	if got := values["env"].(map[string]any)["POOL_SIZE"]; got != "10" {
		t.Errorf("the web pods' pool is %v, want 10", got)
	}
	if got := values["worker"].(map[string]any)["env"].(map[string]any)["POOL_SIZE"]; got != "1" {
		t.Errorf("the workers' pool is %v, want 1", got)
	}
}

func TestAReleaseOfManyPodsMayTakeLong(t *testing.T) {
	if got := clusterConfig(t, `{"poolSize":1,"web":{"maxReplicas":80}}`).releaseSeconds(); got < 80*12 {
		t.Errorf("80 pods, one after the other, have %d s", got)
	}
}

func TestTheNamespaceEnforcesTheLevel(t *testing.T) {
	for raw, want := range map[string]string{`{"poolSize":10}`: "restricted", `{"poolSize":10,"podSecurity":"baseline"}`: "baseline"} {
		labels := clusterConfig(t, raw).namespaceLabels()
		if diff := cmp.Diff(map[string]string{
			"pod-security.kubernetes.io/enforce": want, "pod-security.kubernetes.io/enforce-version": "latest", "pod-security.kubernetes.io/warn": want,
		}, labels); diff != "" {
			t.Error(diff)
		}
	}
}

func TestAnIngressIsAskedForWhereTheEdgeComesByOne(t *testing.T) {
	if got := withIngress(map[string]any{}, ""); len(got) > 0 {
		t.Errorf("by the NodePort: %v", got)
	}
	got, want := withIngress(map[string]any{"env": 1}, "traefik"), map[string]any{"env": 1, "ingress": map[string]any{"enabled": true, "className": "traefik"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Where control groups are of version 1, a container whose limit is above its
// machine's cap does not start: once the migration's own of 500m kept a release from a
// node with 300m.
func TestNoPartOfTheChartHasALimitAboveThoseThatAreChecked(t *testing.T) {
	raw, err := os.ReadFile("chart/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var chart map[string]any
	if err := yaml.Unmarshal(raw, &chart); err != nil {
		t.Fatal(err)
	}
	values := clusterConfig(t, `{"poolSize":5,"web":{"requestCpuMilli":40,"limitCpuMilli":90},"worker":{"requestCpuMilli":20,"limitCpuMilli":80}}`).values("r", "t", nil)
	parts := 0
	for name, part := range chart {
		if p, ok := part.(map[string]any); !ok || p["resources"] == nil {
			continue
		}
		parts++
		given, _ := values[name].(map[string]any)
		resources, _ := given["resources"].(map[string]any)
		limits, _ := resources["limits"].(map[string]any)
		var milli int
		if _, err := fmt.Sscanf(fmt.Sprint(limits["cpu"]), "%dm", &milli); err != nil || milli > 90 {
			t.Errorf("%s: CPU limit %v, want one of 90m at most", name, limits["cpu"])
		}
	}
	if parts != 4 {
		t.Errorf("the chart has %d parts with limits, want 4", parts)
	}
}
