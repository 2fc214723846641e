package sample

import (
	"slices"
	"strconv"
	"strings"
)

// The kinds of the API that are watched, with the fields that are used; what else
// an object has is not kept.

type condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"` // "True", "False" or "Unknown"
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

func find(all []condition, kind string) condition {
	for _, c := range all {
		if c.Type == kind {
			return c
		}
	}
	return condition{}
}

type pod struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		Phase      string            `json:"phase"`
		Conditions []condition       `json:"conditions"`
		Init       []containerStatus `json:"initContainerStatuses"`
		Containers []containerStatus `json:"containerStatuses"`
	} `json:"status"`
}

type containerStatus struct {
	Name     string         `json:"name"`
	Restarts int64          `json:"restartCount"`
	State    containerState `json:"state"`
	Last     containerState `json:"lastState"`
}

type containerState struct {
	Waiting *struct {
		Reason string `json:"reason"`
	} `json:"waiting"`
	Terminated *struct {
		Reason      string `json:"reason"`
		ContainerID string `json:"containerID"`
	} `json:"terminated"`
}

func (p pod) identity() metadata { return p.Metadata }

// containers are all of a pod's, those before the others too: a sidecar is one of them.
func (p pod) containers() []containerStatus {
	return slices.Concat(p.Status.Init, p.Status.Containers)
}

// ended says whether a pod's containers ran to their end.
func (p pod) ended() bool { return p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed" }

func (p pod) ready() bool {
	return p.Metadata.Deleted == "" && find(p.Status.Conditions, "Ready").Status == "True"
}

// refused is why no node takes the pod, "" when it has one or is not looked at yet.
func (p pod) refused() string {
	if c := find(p.Status.Conditions, "PodScheduled"); p.Spec.NodeName == "" && c.Status == "False" && c.Reason == "Unschedulable" {
		return refusal(c.Message)
	}
	return ""
}

// short is more than nodes can say of anything else.
const short = 1 << 20

// refusal is the reason that most matters of a scheduler's message, as in "0/3 nodes
// are available: 1 node(s) had untolerated taint {a: b}, 2 Insufficient cpu.
// preemption: …": what is short, else what most nodes said.
func refusal(message string) string {
	_, reasons, ok := strings.Cut(message, "nodes are available: ")
	if !ok {
		return strings.TrimSuffix(message, ".")
	}
	reasons, _, _ = strings.Cut(reasons, ". ")
	best, most := "", -1
	for part := range strings.SplitSeq(strings.TrimSuffix(reasons, "."), ", ") {
		number, reason, _ := strings.Cut(part, " ")
		n, err := strconv.Atoi(number)
		if err != nil {
			n, reason = 0, part // without a number it is of all nodes, and the only one
		}
		if strings.HasPrefix(reason, "Insufficient ") {
			n += short
		}
		if n > most {
			best, most = reason, n
		}
	}
	return best
}

// waits are the reasons why containers of a pod that has a node do not start.
// Before their first start they are only on their way.
func (p pod) waits() []string {
	var all []string
	for _, c := range p.containers() {
		if w := c.State.Waiting; w != nil && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" && w.Reason != "" {
			all = append(all, w.Reason)
		}
	}
	return all
}

// workload is the name of what owns the pod: a Deployment by way of its ReplicaSet,
// or whatever it is.
func (p pod) workload() string {
	for _, o := range p.Metadata.Owners {
		if !o.Controller {
			continue
		}
		if hash := p.Metadata.Labels["pod-template-hash"]; o.Kind == "ReplicaSet" && hash != "" {
			return strings.TrimSuffix(o.Name, "-"+hash)
		}
		return o.Name
	}
	return p.Metadata.Name
}

// happened is what of a pod's containers restarted, and was killed for memory,
// between two states of it.
func happened(before *pod, now pod) (restarts, kills int64) {
	count := map[string]int64{}
	told := map[string]bool{}
	if before != nil {
		for _, c := range before.containers() {
			count[c.Name] = c.Restarts
			for _, s := range []containerState{c.State, c.Last} {
				if s.Terminated != nil {
					told[s.Terminated.ContainerID] = true
				}
			}
		}
	}
	for _, c := range now.containers() {
		restarts += max(0, c.Restarts-count[c.Name])
		for _, s := range []containerState{c.State, c.Last} {
			if t := s.Terminated; t != nil && t.Reason == "OOMKilled" && !told[t.ContainerID] {
				told[t.ContainerID] = true
				kills++
			}
		}
	}
	return restarts, kills
}

type node struct {
	Metadata metadata `json:"metadata"`
	Status   struct {
		Conditions []condition `json:"conditions"`
		Info       struct {
			Kubelet string `json:"kubeletVersion"`
		} `json:"nodeInfo"`
	} `json:"status"`
}

func (n node) identity() metadata { return n.Metadata }

// good are the conditions of a node that is well; k3s tells one of its etcd.
var good = []string{"Ready", "EtcdIsVoter"}

// troubles are the other conditions that hold.
func (n node) troubles() []string {
	var all []string
	for _, c := range n.Status.Conditions {
		if !slices.Contains(good, c.Type) && c.Status == "True" {
			all = append(all, c.Type)
		}
	}
	return all
}

// distributions put their name into the kubelet's version: "v1.33.4+k3s1".
var distributions = []string{"k3s", "rke2", "labkube"}

func (n node) distribution() string {
	for _, name := range distributions {
		if strings.Contains(n.Status.Info.Kubelet, "+"+name) {
			return name
		}
	}
	return "cluster"
}

type service struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		Selector map[string]string `json:"selector"`
	} `json:"spec"`
}

func (s service) identity() metadata { return s.Metadata }

// selects says whether the service leads to pods with such labels.
func (s service) selects(labels map[string]string) bool {
	for key, value := range s.Spec.Selector {
		if labels[key] != value {
			return false
		}
	}
	return len(s.Spec.Selector) > 0
}
