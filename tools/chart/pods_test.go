package chart

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	core "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	security "k8s.io/pod-security-admission/policy"
)

// refused is why the Pod Security level restricted refuses a pod, "" where it does
// not.
func refused(t *testing.T, pod core.PodTemplateSpec) string {
	t.Helper()
	evaluator, err := security.NewEvaluator(security.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	result := security.AggregateCheckResults(evaluator.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec))
	if result.Allowed {
		return ""
	}
	return result.ForbiddenDetail()
}

func TestEveryPodPassesTheRestrictedLevel(t *testing.T) {
	each(t, func(t *testing.T, _ map[string]any, m manifests) {
		if diff := cmp.Diff([]string{"app-beat", "app-migrate", "app-web", "app-worker"}, slices.Sorted(maps.Keys(m.templates()))); diff != "" {
			t.Error(diff)
		}
		for name, pod := range m.templates() {
			if why := refused(t, pod); why != "" {
				t.Errorf("%s is refused: %s", name, why)
			}
			loose := *pod.DeepCopy()
			loose.Spec.Containers[0].SecurityContext.Capabilities = nil
			if refused(t, loose) == "" {
				t.Errorf("%s would pass with every capability: the level is not checked", name)
			}
		}
	})
}

func TestPodsHaveNoMoreThanTheyNeed(t *testing.T) {
	each(t, func(t *testing.T, _ map[string]any, m manifests) {
		for name, pod := range m.templates() {
			s := pod.Spec
			if s.AutomountServiceAccountToken == nil || *s.AutomountServiceAccountToken || s.EnableServiceLinks == nil || *s.EnableServiceLinks {
				t.Errorf("%s gets a token or the services' addresses", name)
			}
			if s.HostNetwork || s.HostPID || s.HostIPC || len(s.Volumes) > 0 || len(s.InitContainers) > 0 || len(s.Containers) != 1 {
				t.Errorf("%s has more than one container of its own: %+v", name, s)
			}
			c := s.Containers[0]
			if root := c.SecurityContext.ReadOnlyRootFilesystem; root == nil || !*root {
				t.Errorf("%s can write to its disk", name)
			}
			if c.Image != "lab.local/app:0123456789abcdef" || c.ImagePullPolicy != core.PullNever {
				t.Errorf("%s runs %s, pulled %s; want the image that the nodes have", name, c.Image, c.ImagePullPolicy)
			}
			if diff := cmp.Diff([]string{strings.TrimPrefix(name, "app-")}, c.Args); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
		for name, account := range m.accounts {
			if account.AutomountServiceAccountToken == nil || *account.AutomountServiceAccountToken {
				t.Errorf("the account %s mounts a token", name)
			}
		}
	})
}

func TestEveryContainerHasRequestsAndLimits(t *testing.T) {
	each(t, func(t *testing.T, _ map[string]any, m manifests) {
		for name, pod := range m.templates() {
			r := pod.Spec.Containers[0].Resources
			for _, of := range []core.ResourceName{core.ResourceCPU, core.ResourceMemory} {
				request, limit := r.Requests[of], r.Limits[of]
				if request.Sign() <= 0 || limit.Cmp(request) < 0 {
					t.Errorf("%s: %s is %s of %s; want some, and no more than the limit", name, of, request.String(), limit.String())
				}
			}
		}
	})
}

func TestPodsGetTheirSettingsAndTheSecretOnes(t *testing.T) {
	each(t, func(t *testing.T, values map[string]any, m manifests) {
		for name, pod := range m.templates() {
			plain, secret := map[string]string{}, map[string]string{}
			for _, e := range pod.Spec.Containers[0].Env {
				_, twice := plain[e.Name]
				switch {
				case twice || secret[e.Name] != "":
					t.Errorf("%s has %s twice", name, e.Name)
				case e.ValueFrom == nil:
					plain[e.Name] = e.Value
				case e.ValueFrom.SecretKeyRef != nil:
					secret[e.Name] = e.ValueFrom.SecretKeyRef.Name + "/" + e.ValueFrom.SecretKeyRef.Key
				}
			}
			want := map[string]string{"DATABASE_URL": "app-credentials/DATABASE_URL", "REDIS_URL": "app-credentials/REDIS_URL"}
			if diff := cmp.Diff(want, secret); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
			for setting, value := range values["env"].(map[string]any) {
				if name == "app-worker" && setting == "POOL_SIZE" {
					value = "1"
				}
				if plain[setting] != value {
					t.Errorf("%s has %s=%s, want %v", name, setting, plain[setting], value)
				}
			}
			if plain["GOMEMLIMIT"] == "" {
				t.Errorf("%s does not know how much memory it may take", name)
			}
		}
	})
}

func TestAChangeElsewhereReplacesThePods(t *testing.T) {
	each(t, func(t *testing.T, _ map[string]any, m manifests) {
		for name, pod := range m.templates() {
			want := map[string]string{"lab.local/image": "sha256:0123", "lab.local/secret": "4567"}
			if diff := cmp.Diff(want, pod.Annotations); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
	})
}

func TestPodsGoToNodesOfTheImagesArchitectures(t *testing.T) {
	want := map[string][]string{"default": {"amd64"}, "largest-pool": {"amd64", "arm64"}, "no-autoscaler": {"arm64"}}
	for fixture, archs := range want {
		for name, pod := range rendered(t, fixtures(t)[fixture]).templates() {
			terms := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
			if len(terms) != 1 || len(terms[0].MatchExpressions) != 1 {
				t.Fatalf("%s of %s: %v", name, fixture, terms)
			}
			on := terms[0].MatchExpressions[0]
			if diff := cmp.Diff(archs, on.Values); diff != "" || on.Key != core.LabelArchStable || on.Operator != core.NodeSelectorOpIn {
				t.Errorf("%s of %s: %+v %s", name, fixture, on, diff)
			}
		}
	}
}

// bound is a time of the workload's own, in seconds, from its source: the
// workload's package can't be imported.
func bound(t *testing.T, file, name string) int {
	t.Helper()
	raw, err := os.ReadFile("../../app/" + file)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(name + ` += (\d+) \* time\.Second`).FindSubmatch(raw)
	if found == nil {
		t.Fatalf("app/%s has no %s in seconds", file, name)
	}
	seconds, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return seconds
}

func TestAWebPodEndsWithoutLosingARequest(t *testing.T) {
	requestSeconds := bound(t, "web.go", "requestTimeout")
	each(t, func(t *testing.T, values map[string]any, m manifests) {
		web := m.deployments["app-web"].Spec
		c := web.Template.Spec.Containers[0]
		if c.Lifecycle == nil || c.Lifecycle.PreStop == nil || c.Lifecycle.PreStop.Sleep == nil {
			t.Fatal("it ends before the nodes have heard of it")
		}
		preStop, drain := int(c.Lifecycle.PreStop.Sleep.Seconds), number(t, values, "web", "drainSeconds")
		if got := setting(c, "DRAIN_SECONDS"); preStop < 1 || got != fmt.Sprint(drain) {
			t.Errorf("it waits %d s, then drains for %q s; want some, and %d", preStop, got, drain)
		}
		if grace := *web.Template.Spec.TerminationGracePeriodSeconds; int(grace) <= preStop+drain+requestSeconds {
			t.Errorf("%d s for all of it, of which %d, %d and %d are used", grace, preStop, drain, requestSeconds)
		}
		if r := web.Strategy.RollingUpdate; r == nil || r.MaxUnavailable.IntValue() != 0 || r.MaxSurge.IntValue() != 1 {
			t.Errorf("a roll-out is %+v; want one more, and none fewer", web.Strategy)
		}
		// Else more than one would finish while another starts, beyond the database.
		if int(web.MinReadySeconds) < preStop+drain {
			t.Errorf("the next pod ends after %d s, before this one did in %d", web.MinReadySeconds, preStop+drain)
		}
	})
}

func TestAWorkerHasTimeToFinishItsJob(t *testing.T) {
	// A job, what is kept of it, and the look for one that comes before.
	longest := 2*bound(t, "worker.go", "jobTimeout") + bound(t, "worker.go", "takeWait")
	each(t, func(t *testing.T, _ map[string]any, m manifests) {
		if grace := *m.deployments["app-worker"].Spec.Template.Spec.TerminationGracePeriodSeconds; int(grace) <= longest {
			t.Errorf("it is ended after %d s, and may take %d", grace, longest)
		}
	})
}

func setting(c core.Container, name string) string {
	for _, e := range c.Env {
		if e.Name == name {
			return e.Value
		}
	}
	return ""
}

func TestProbes(t *testing.T) {
	each(t, func(t *testing.T, _ map[string]any, m manifests) {
		c := m.deployments["app-web"].Spec.Template.Spec.Containers[0]
		if len(c.Ports) != 1 || c.Ports[0].Name != "http" || setting(c, "LISTEN") != fmt.Sprintf(":%d", c.Ports[0].ContainerPort) {
			t.Errorf("it listens at %s, its port is %+v", setting(c, "LISTEN"), c.Ports)
		}
		for _, row := range []struct {
			name  string
			probe *core.Probe
			path  string
		}{
			{"startup", c.StartupProbe, "/healthz"}, {"readiness", c.ReadinessProbe, "/readyz"}, {"liveness", c.LivenessProbe, "/healthz"},
		} {
			if row.probe == nil || row.probe.HTTPGet == nil || row.probe.HTTPGet.Path != row.path || row.probe.HTTPGet.Port.StrVal != "http" {
				t.Errorf("the %s probe is %+v, want one of %s", row.name, row.probe, row.path)
			}
		}
		// A database that is away must not have every pod started again.
		if c.LivenessProbe.FailureThreshold*c.LivenessProbe.PeriodSeconds < 30 {
			t.Errorf("an overload of %d s ends a pod", c.LivenessProbe.FailureThreshold*c.LivenessProbe.PeriodSeconds)
		}
	})
}
