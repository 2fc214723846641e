package chart

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

// manifests are what a release declares, by name.
type manifests struct {
	deployments map[string]apps.Deployment
	jobs        map[string]batch.Job
	autoscalers map[string]autoscaling.HorizontalPodAutoscaler
	budgets     map[string]policy.PodDisruptionBudget
	services    map[string]core.Service
	accounts    map[string]core.ServiceAccount
	ingresses   map[string]networking.Ingress
}

// render gives the chart to Helm as a first install of the release app does.
func render(values map[string]any) (map[string]string, error) {
	c, err := loader.Load("../../workloads/chart")
	if err != nil {
		return nil, err
	}
	version, err := common.ParseKubeVersion("v1.36.3")
	if err != nil {
		return nil, err
	}
	capabilities := common.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *version
	all, err := util.ToRenderValues(c, values, common.ReleaseOptions{Name: "app", Namespace: "lab", Revision: 1, IsInstall: true}, capabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(c, all)
}

var separator = regexp.MustCompile(`(?m)^---\s*$`)

// read takes the rendered files apart. A field that Kubernetes does not know is an
// error, as is a name that is there twice.
func read(files map[string]string) (manifests, error) {
	m := manifests{
		map[string]apps.Deployment{}, map[string]batch.Job{}, map[string]autoscaling.HorizontalPodAutoscaler{}, map[string]policy.PodDisruptionBudget{},
		map[string]core.Service{}, map[string]core.ServiceAccount{}, map[string]networking.Ingress{},
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		for _, document := range separator.Split(files[name], -1) {
			if strings.TrimSpace(document) == "" {
				continue
			}
			if err := m.add([]byte(document)); err != nil {
				return m, fmt.Errorf("%s: %w\n%s", name, err, document)
			}
		}
	}
	return m, nil
}

func (m manifests) add(document []byte) error {
	var head struct{ APIVersion, Kind string }
	if err := yaml.Unmarshal(document, &head); err != nil {
		return err
	}
	switch head.APIVersion + " " + head.Kind {
	case "apps/v1 Deployment":
		return keep(m.deployments, document)
	case "batch/v1 Job":
		return keep(m.jobs, document)
	case "autoscaling/v2 HorizontalPodAutoscaler":
		return keep(m.autoscalers, document)
	case "policy/v1 PodDisruptionBudget":
		return keep(m.budgets, document)
	case "v1 Service":
		return keep(m.services, document)
	case "v1 ServiceAccount":
		return keep(m.accounts, document)
	case "networking.k8s.io/v1 Ingress":
		return keep(m.ingresses, document)
	}
	return fmt.Errorf("%s %s is nothing that this chart declares", head.APIVersion, head.Kind)
}

func keep[T any](all map[string]T, document []byte) error {
	var object T
	if err := yaml.UnmarshalStrict(document, &object); err != nil {
		return err
	}
	var head struct {
		Metadata struct{ Name, Namespace string }
	}
	if err := yaml.Unmarshal(document, &head); err != nil {
		return err
	}
	if _, ok := all[head.Metadata.Name]; ok || head.Metadata.Name == "" || head.Metadata.Namespace != "lab" {
		return fmt.Errorf("the name %q of the namespace %q is there twice, or none of the release's", head.Metadata.Name, head.Metadata.Namespace)
	}
	all[head.Metadata.Name] = object
	return nil
}

// fixtures are the values that the product gives the chart, each of a file.
func fixtures(t *testing.T) map[string]map[string]any {
	t.Helper()
	found, err := filepath.Glob("../../workloads/testdata/values/*.yaml")
	if err != nil || len(found) < 4 {
		t.Fatalf("%d files of values, %v; want 4 and more", len(found), err)
	}
	all := map[string]map[string]any{}
	for _, path := range found {
		values, err := common.ReadValuesFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(filepath.Base(path), ".yaml")] = values
	}
	return all
}

// rendered is a release with a fixture's values, and with what a release adds.
func rendered(t *testing.T, values map[string]any) manifests {
	t.Helper()
	values = maps.Clone(values)
	values["rollout"] = map[string]any{"image": "sha256:0123", "secret": "4567"}
	files, err := render(values)
	if err != nil {
		t.Fatal(err)
	}
	m, err := read(files)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// each runs a test with every fixture.
func each(t *testing.T, test func(t *testing.T, values map[string]any, m manifests)) {
	t.Helper()
	for name, values := range fixtures(t) {
		t.Run(name, func(t *testing.T) { test(t, values, rendered(t, values)) })
	}
}

// templates are the pods of all that makes some, by its name.
func (m manifests) templates() map[string]core.PodTemplateSpec {
	all := map[string]core.PodTemplateSpec{}
	for name, d := range m.deployments {
		all[name] = d.Spec.Template
	}
	for name, j := range m.jobs {
		all[name] = j.Spec.Template
	}
	return all
}

// number is a whole number of values.
func number(t *testing.T, values map[string]any, path ...string) int {
	t.Helper()
	var at any = values
	for _, key := range path {
		table, ok := at.(map[string]any)
		if !ok {
			t.Fatalf("%v is not of the values", path)
		}
		at = table[key]
	}
	n, err := strconv.Atoi(fmt.Sprint(at)) // a float, or the number's text
	if err != nil {
		t.Fatalf("%v: %v", path, err)
	}
	return n
}
