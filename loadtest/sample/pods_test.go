package sample

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The groups of a kubelet's pods, as its two cgroup drivers name them, in both
// versions of the tree.
func TestPodsOfThisHost(t *testing.T) {
	const (
		uid   = "0f4c1b2a-1111-2222-3333-444455556666"
		id    = "8d5a3f0e1c2b4a5968778695a4b3c2d1e0f9a8b7c6d5e4f30a1b2c3d4e5f6071"
		pause = "1111111111112222222222222222222222222222222222222222222222222222"
		stat  = "nr_periods 100\nnr_throttled 40\nthrottled_time 9\n"
		none  = "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n"
	)
	limited := []PodCounters{{uid, id[:12], 100, 40}}
	for _, row := range []struct {
		name  string
		files map[string]string
		want  []PodCounters
	}{
		{"no kubelet", map[string]string{"cpu/system.slice/cpu.stat": stat}, nil},
		{"version 1, in a group of its own, beside the pause container", map[string]string{
			"cpu/labkube/kubepods/burstable/pod" + uid + "/" + id + "/cpu.stat":    stat,
			"cpu/labkube/kubepods/burstable/pod" + uid + "/" + pause + "/cpu.stat": none,
			"memory/labkube/kubepods/burstable/pod" + uid + "/" + id + "/cpu.stat": stat,
		}, limited},
		{"version 1, a guaranteed pod at the root", map[string]string{"cpu/kubepods/pod" + uid + "/" + id + "/cpu.stat": stat}, limited},
		{"version 2, cgroupfs", map[string]string{"kubepods/burstable/pod" + uid + "/" + id + "/cpu.stat": stat}, limited},
		{"version 2, systemd", map[string]string{
			"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0f4c1b2a_1111_2222_3333_444455556666.slice/cri-containerd-" + id + ".scope/cpu.stat": stat,
		}, limited},
		{"version 2, systemd, guaranteed", map[string]string{
			"kubepods.slice/kubepods-pod0f4c1b2a_1111_2222_3333_444455556666.slice/cri-containerd-" + id + ".scope/cpu.stat": stat,
		}, limited},
	} {
		files := map[string]string{}
		for name, text := range row.files {
			files["sys/fs/cgroup/"+name] = text
		}
		c, err := Reader{Root: tree(t, proc, files)}.Read()
		if err != nil {
			t.Errorf("%s: %v", row.name, err)
		}
		if diff := cmp.Diff(row.want, c.Pods); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.name, diff)
		}
	}
}

// What a node of a hundred pods with limits costs a reading.
func BenchmarkPods(b *testing.B) {
	files := map[string]string{}
	for i := range 100 {
		files[fmt.Sprintf("sys/fs/cgroup/cpu/kubepods/burstable/pod%d/%012d/cpu.stat", i, i)] = "nr_periods 100\nnr_throttled 40\nthrottled_time 9\n"
	}
	r := Reader{Root: tree(b, files)}
	for b.Loop() {
		if len(r.pods()) != 100 {
			b.Fatal("not all were read")
		}
	}
}
