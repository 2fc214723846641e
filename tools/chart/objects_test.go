package chart

import (
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// selected are the names whose pods have all of the labels.
func selected(m manifests, want map[string]string) []string {
	var names []string
	for name, pod := range m.templates() {
		if labels.SelectorFromSet(want).Matches(labels.Set(pod.Labels)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func TestSelectorsMatchTheirOwnPodsAlone(t *testing.T) {
	each(t, func(t *testing.T, _ map[string]any, m manifests) {
		own := map[string]map[string]string{"the service": m.services["app-web"].Spec.Selector}
		owners := map[string]string{"the service": "app-web"}
		add := func(what, name string, selector map[string]string) {
			own[what+" of "+name], owners[what+" of "+name] = selector, name
		}
		for name, d := range m.deployments {
			add("the deployment", name, d.Spec.Selector.MatchLabels)
			for _, spread := range d.Spec.Template.Spec.TopologySpreadConstraints {
				add("the spread", name, spread.LabelSelector.MatchLabels)
			}
		}
		for name, b := range m.budgets {
			add("the disruption budget", name, b.Spec.Selector.MatchLabels)
		}
		for what, selector := range own {
			if diff := cmp.Diff([]string{owners[what]}, selected(m, selector)); len(selector) == 0 || diff != "" {
				t.Errorf("%s: %s", what, diff)
			}
		}
	})
}

func TestAutoscalersScaleWhatIsThereByItsRequests(t *testing.T) {
	each(t, func(t *testing.T, values map[string]any, m manifests) {
		for _, part := range []string{"web", "worker"} {
			name := "app-" + part
			deployment, ok := m.deployments[name]
			if !ok {
				t.Fatalf("there is no %s", name)
			}
			least, most := number(t, values, part, "minReplicas"), number(t, values, part, "maxReplicas")
			scaler, scaled := m.autoscalers[name]
			if least == most {
				if scaled || deployment.Spec.Replicas == nil || int(*deployment.Spec.Replicas) != least {
					t.Errorf("%s: autoscaled: %v, replicas %v; want %d and no autoscaler", name, scaled, deployment.Spec.Replicas, least)
				}
				continue
			}
			if !scaled || deployment.Spec.Replicas != nil {
				t.Fatalf("%s: autoscaled: %v, replicas %v; want no say but the autoscaler's", name, scaled, deployment.Spec.Replicas)
			}
			target := scaler.Spec.ScaleTargetRef
			if target.APIVersion != "apps/v1" || target.Kind != "Deployment" || target.Name != name {
				t.Errorf("%s scales %+v", name, target)
			}
			if int(*scaler.Spec.MinReplicas) != least || int(scaler.Spec.MaxReplicas) != most {
				t.Errorf("%s: %d to %d, want %d to %d", name, *scaler.Spec.MinReplicas, scaler.Spec.MaxReplicas, least, most)
			}
			metric := scaler.Spec.Metrics[0].Resource
			if len(scaler.Spec.Metrics) != 1 || metric.Name != core.ResourceCPU || int(*metric.Target.AverageUtilization) != number(t, values, part, "targetCPUPercent") {
				t.Errorf("%s: %+v", name, scaler.Spec.Metrics)
			}
			for _, c := range deployment.Spec.Template.Spec.Containers {
				if request := c.Resources.Requests[core.ResourceCPU]; request.Sign() <= 0 {
					t.Errorf("%s: %s has no request to scale by", name, c.Name)
				}
			}
		}
		for name := range m.autoscalers {
			if name != "app-web" && name != "app-worker" {
				t.Errorf("%s is scaled", name)
			}
		}
	})
}

// The pool that the configuration accepts at most fits in the database with every
// autoscaler at its maximum and every roll-out under way, and a larger one does not.
func TestTheLargestPoolFitsInTheDatabase(t *testing.T) {
	const (
		maxConnections = 100
		rollout        = 2         // a pod that starts, and one that ends
		reserve        = 3 + 1 + 1 // a superuser's, the sampler, a migration
	)
	m := rendered(t, fixtures(t)["largest-pool"])
	held := reserve
	for _, name := range []string{"app-web", "app-worker"} {
		pool, err := strconv.Atoi(setting(m.deployments[name].Spec.Template.Spec.Containers[0], "POOL_SIZE"))
		if err != nil {
			t.Fatal(err)
		}
		held += (int(m.autoscalers[name].Spec.MaxReplicas) + rollout) * pool
	}
	if larger := held + int(m.autoscalers["app-web"].Spec.MaxReplicas) + rollout; held > maxConnections || larger <= maxConnections {
		t.Errorf("%d connections, and %d with one more a pod; want at most %d, and more", held, larger, maxConnections)
	}
}

func TestPodsSpreadOverTheNodes(t *testing.T) {
	each(t, func(t *testing.T, _ map[string]any, m manifests) {
		for _, name := range []string{"app-web", "app-worker"} {
			spread := m.deployments[name].Spec.Template.Spec.TopologySpreadConstraints
			// ScheduleAnyway: a node that is down is no reason for pods to wait.
			if len(spread) != 1 || spread[0].TopologyKey != core.LabelHostname || spread[0].MaxSkew != 1 || spread[0].WhenUnsatisfiable != core.ScheduleAnyway {
				t.Errorf("%s: %+v", name, spread)
			}
			if budget := m.budgets[name].Spec; budget.MaxUnavailable == nil || budget.MaxUnavailable.IntValue() != 1 || budget.MinAvailable != nil {
				t.Errorf("%s: a drain may take %+v", name, budget)
			}
		}
		if replicas := m.deployments["app-beat"].Spec.Replicas; replicas == nil || *replicas != 1 {
			t.Errorf("%v beats, want 1", replicas)
		}
	})
}

func TestEveryNodeSendsToTheWebPods(t *testing.T) {
	each(t, func(t *testing.T, values map[string]any, m manifests) {
		s := m.services["app-web"].Spec
		if len(m.services) != 1 || s.Type != core.ServiceTypeNodePort || s.ExternalTrafficPolicy != core.ServiceExternalTrafficPolicyCluster || len(s.Ports) != 1 {
			t.Fatalf("%+v", m.services)
		}
		if p := s.Ports[0]; int(p.NodePort) != number(t, values, "service", "nodePort") || p.TargetPort.StrVal != "http" {
			t.Errorf("%+v", p)
		}
		if len(m.ingresses) > 0 {
			t.Error("there is an ingress that nobody asked for")
		}
	})
}

func TestTheMigrationRunsBeforeAllElse(t *testing.T) {
	each(t, func(t *testing.T, _ map[string]any, m manifests) {
		j := m.jobs["app-migrate"]
		if len(m.jobs) != 1 || j.Annotations["helm.sh/hook"] != "pre-install,pre-upgrade" || j.Annotations["helm.sh/hook-delete-policy"] == "" {
			t.Errorf("%v of %v", j.Annotations, m.jobs)
		}
		// What the chart declares is not there yet at the first install.
		if _, ok := m.accounts[j.Spec.Template.Spec.ServiceAccountName]; ok {
			t.Errorf("it runs as %s, which is installed after it", j.Spec.Template.Spec.ServiceAccountName)
		}
		if j.Spec.ActiveDeadlineSeconds == nil || j.Spec.Template.Spec.RestartPolicy != core.RestartPolicyNever {
			t.Errorf("it may run for ever: %+v", j.Spec)
		}
		for name, d := range m.deployments {
			if _, ok := m.accounts[d.Spec.Template.Spec.ServiceAccountName]; !ok {
				t.Errorf("%s runs as %s, which is not there", name, d.Spec.Template.Spec.ServiceAccountName)
			}
		}
	})
}

func TestAnIngressIsMadeWhenAskedFor(t *testing.T) {
	values := maps.Clone(fixtures(t)["default"])
	values["ingress"] = map[string]any{"enabled": true, "className": "traefik", "host": "shop.test"}
	m := rendered(t, values)
	i := m.ingresses["app-web"].Spec
	if i.IngressClassName == nil || *i.IngressClassName != "traefik" || len(i.Rules) != 1 || i.Rules[0].Host != "shop.test" {
		t.Fatalf("%+v", i)
	}
	backend := i.Rules[0].HTTP.Paths[0].Backend.Service
	if port := m.services[backend.Name].Spec.Ports; len(port) != 1 || port[0].Name != backend.Port.Name {
		t.Errorf("it sends to %+v, of the service's %+v", backend, port)
	}
	values["ingress"] = map[string]any{"enabled": true}
	i = rendered(t, values).ingresses["app-web"].Spec
	if i.IngressClassName != nil || len(i.Rules) != 1 || i.Rules[0].Host != "" {
		t.Errorf("of any class and host: %+v", i)
	}
}
