package workloads

import (
	"fmt"
	"math"
	"slices"
)

const (
	// ReleaseName begins the names of all that the chart declares.
	ReleaseName = "app"
	// secretName is the Secret with DATABASE_URL and REDIS_URL that the chart's pods
	// read; whoever installs the chart makes it.
	secretName = "app-credentials"
	// chartPath is the demo workload's chart, from the project's folder.
	chartPath = "workloads/chart"

	// preStopSeconds is how long a pod that is to end takes new connections still,
	// until every node has heard that it ends.
	preStopSeconds = 3
	// drainSeconds is how long it then answers on the connections that it has.
	drainSeconds = 5
)

// values are what the demo workload's chart is given, but for what changes with a
// secret or is known only when something was made: rollout.
func (c Config) values(repository, tag string, archs []string) map[string]any {
	environment := map[string]any{}
	for _, s := range c.settings(appPort) {
		environment[s.name] = s.value
	}
	web, worker := c.Web.values(), c.Worker.values()
	web["preStopSeconds"], web["drainSeconds"] = preStopSeconds, drainSeconds
	worker["env"].(map[string]any)["POOL_SIZE"] = fmt.Sprint(workerPool)
	return map[string]any{
		// Every node has the image: nothing is to be pulled.
		"image":      map[string]any{"repository": repository, "tag": tag, "pullPolicy": "Never"},
		"archs":      slices.Compact(slices.Sorted(slices.Values(archs))),
		"secretName": secretName,
		"env":        environment,
		"web":        web,
		"worker":     worker,
		// The limits of web and worker are within the smallest node's cap (checkCap): so
		// no other container's may be above them.
		"migrate": map[string]any{"resources": cpu(c.Web.RequestCPUMilli, c.Web.LimitCPUMilli)},
		"beat":    map[string]any{"resources": cpu(10, min(100, c.Worker.LimitCPUMilli))},
		"service": map[string]any{"nodePort": c.NodePort},
	}
}

// withIngress adds what the demo workload's chart is given where the edge comes by
// an Ingress of the class; "" is none.
func withIngress(values map[string]any, class string) map[string]any {
	if class != "" {
		values["ingress"] = map[string]any{"enabled": true, "className": class}
	}
	return values
}

func (p PodsConfig) values() map[string]any {
	resources := cpu(p.RequestCPUMilli, p.LimitCPUMilli)
	for _, of := range resources {
		of.(map[string]any)["memory"] = fmt.Sprintf("%dMi", p.MemoryMiB)
	}
	return map[string]any{
		"minReplicas":      p.MinReplicas,
		"maxReplicas":      p.MaxReplicas,
		"targetCPUPercent": int(math.Round(p.TargetCPURatio * 100)),
		"resources":        resources,
		// Go's collector has to know of the limit, or the kernel ends the process at it.
		"env": map[string]any{"GOMEMLIMIT": fmt.Sprintf("%dMiB", p.MemoryMiB*9/10)},
	}
}

// cpu is a container's resources, of thousandths of a CPU, without its memory.
func cpu(request, limit int) map[string]any {
	return map[string]any{
		"requests": map[string]any{"cpu": fmt.Sprintf("%dm", request)},
		"limits":   map[string]any{"cpu": fmt.Sprintf("%dm", limit)},
	}
}

// releaseSeconds is how long a release may take: the web pods start one after the
// other, each at least ten seconds after the one before.
func (c Config) releaseSeconds() int { return 300 + 30*c.Web.MaxReplicas }

// namespaceLabels have the namespace refuse pods that are below the level.
func (c Config) namespaceLabels() map[string]string {
	return map[string]string{
		"pod-security.kubernetes.io/enforce":         c.PodSecurity,
		"pod-security.kubernetes.io/enforce-version": "latest",
		"pod-security.kubernetes.io/warn":            c.PodSecurity,
	}
}
