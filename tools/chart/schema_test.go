package chart

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// What would fail on the cluster, or scale nothing, is refused before anything is
// installed.
func TestValuesThatDoNotFitAreRefused(t *testing.T) {
	const whole = "image: {tag: x}\nsecretName: s\n"
	for _, row := range []struct{ name, values, says string }{
		{"no image", "secretName: s\n", "tag"},
		{"no secret", "image: {tag: x}\n", "secretName"},
		{"a key that is not known", whole + "replicas: 3\n", "replicas"},
		{"a key of a part that is not known", whole + "web: {replicas: 3}\n", "replicas"},
		{"an autoscaler without a request", whole + "web: {resources: {requests: {cpu: null}}}\n", "cpu"},
		{"no limit", whole + "worker: {resources: {limits: {memory: null}}}\n", "memory"},
		{"a port that no node opens", whole + "service: {nodePort: 8080}\n", "nodePort"},
		{"a number for an environment's text", whole + "env: {POOL_SIZE: 10}\n", "POOL_SIZE"},
		{"a secret in the environment", whole + "env: {DATABASE_URL: x}\n", "DATABASE_URL"},
		{"a target in parts of one", whole + "web: {targetCPUPercent: 0.6}\n", "targetCPUPercent"},
		{"no time to hear of the end", whole + "web: {preStopSeconds: 0}\n", "preStopSeconds"},
		{"an architecture that has no image", whole + "archs: [riscv64]\n", "archs"},
		{"fewer at most than at least", whole + "web: {minReplicas: 4, maxReplicas: 2}\n", "web.minReplicas (4) is above web.maxReplicas (2)"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var values map[string]any
			if err := yaml.Unmarshal([]byte(row.values), &values); err != nil {
				t.Fatal(err)
			}
			files, err := render(values)
			if err == nil {
				t.Fatalf("it is rendered: %v", files)
			}
			if !strings.Contains(err.Error(), row.says) {
				t.Errorf("%v; want it to say %q", err, row.says)
			}
		})
	}
}

// The chart's own values are whole but for the image and the secret.
func TestTheChartsOwnValuesAreAnExample(t *testing.T) {
	files, err := render(map[string]any{"image": map[string]any{"tag": "x"}, "secretName": "s"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := read(files); err != nil {
		t.Error(err)
	}
}
