package sample

import (
	"os"
	"path/filepath"
	"strings"
)

// PodCounters are the CPU periods of one container with a CPU limit, in all.
type PodCounters struct {
	Pod       string `json:"pod"`       // its pod's uid
	Container string `json:"container"` // beginning of its id
	Periods   int64  `json:"periods"`
	Throttled int64  `json:"throttled"` // of them
}

const idShown = 12 // characters of a container's id that tell it apart

// pods reads the containers of a kubelet's pods on this host, which lie below the
// group kubepods of the host's own one or of a group in it (kubelet's cgroupRoot).
// A container without a limit has no periods, and is left out. nil: no kubelet.
func (r Reader) pods() []PodCounters {
	base := r.group("cpu") // of a version 1 tree, which then has the CPU's periods
	if !r.exists(base) {
		base = r.group("")
	}
	var all []PodCounters
	for _, root := range r.below(base, "kubepods", "*/kubepods", "kubepods.slice", "*/kubepods.slice") {
		// Pods that the kubelet calls best-effort have no limit.
		for _, pod := range r.below(root, "pod*", "burstable/pod*", "kubepods-pod*.slice", "kubepods-burstable.slice/kubepods-burstable-pod*.slice") {
			all = append(all, r.containers(pod)...)
		}
	}
	return all
}

// containers are those of one pod's group. A pattern would look at each of the
// dozens of files there, every second.
func (r Reader) containers(pod string) []PodCounters {
	var all []PodCounters
	entries, _ := os.ReadDir(r.path(pod)) // a pod that is gone by now has none
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		stat := r.read(filepath.Join(pod, e.Name(), "cpu.stat"))
		if periods := field(stat, "nr_periods"); periods > 0 {
			all = append(all, PodCounters{podUID(filepath.Base(pod)), containerID(e.Name()), periods, field(stat, "nr_throttled")})
		}
	}
	return all
}

// below are the paths, from Root, that match patterns within a folder.
func (r Reader) below(folder string, patterns ...string) []string {
	var all []string
	root := r.path("")
	for _, pattern := range patterns {
		found, _ := filepath.Glob(filepath.Join(r.path(folder), pattern)) // patterns without a fault
		for _, path := range found {
			all = append(all, strings.TrimPrefix(path, root))
		}
	}
	return all
}

// podUID is the uid in the name of a pod's group: "podUID" of the cgroupfs driver;
// the systemd one adds the parents' names, and - has another meaning there.
func podUID(group string) string {
	name := strings.TrimSuffix(group, ".slice")
	if uid, ok := strings.CutPrefix(name, "pod"); ok {
		return uid
	}
	_, uid, _ := strings.Cut(name, "-pod")
	return strings.ReplaceAll(uid, "_", "-")
}

// containerID is the beginning of the id in the name of a container's group: the id,
// or "cri-containerd-ID.scope" of the systemd driver.
func containerID(group string) string {
	id := strings.TrimSuffix(group, ".scope")
	id = id[strings.LastIndexByte(id, '-')+1:]
	return id[:min(len(id), idShown)]
}
