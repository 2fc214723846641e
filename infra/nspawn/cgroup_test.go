package nspawn

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lab/atomicfile"
)

// tree is the text files below a folder, by path.
func tree(t *testing.T, root string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		name, _ := filepath.Rel(root, path)
		found[name] = string(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestCgroupFiles(t *testing.T) {
	tests := []struct {
		name   string
		before map[string]string
		links  map[string]string
		groups []string // made by nspawn after the group was
		want   map[string]string
	}{
		{
			name: "v1, each hierarchy on its own",
			before: map[string]string{
				"cpu/cgroup.procs": "", "cpuacct/cgroup.procs": "", "memory/cgroup.procs": "", "unified/cgroup.procs": "",
				"cpuset/cgroup.procs": "", "cpuset/cpuset.cpus": "0-1\n", "cpuset/cpuset.mems": "0\n",
			},
			want: map[string]string{
				"cpu/lab-x-app/cpu.cfs_period_us": "50000", "cpu/lab-x-app/cpu.cfs_quota_us": "12500",
				"memory/lab-x-app/memory.limit_in_bytes": "268435456",
				"cpuset/lab-x-app/cpuset.cpus":           "0-1", "cpuset/lab-x-app/cpuset.mems": "0",
			},
		},
		{
			name:   "v1 with joined controllers: the links to them are no hierarchies",
			before: map[string]string{"cpu,cpuacct/cgroup.procs": "", "memory/cgroup.procs": "", "other/file": ""},
			links:  map[string]string{"cpu": "cpu,cpuacct", "cpuacct": "cpu,cpuacct"},
			want: map[string]string{
				"cpu,cpuacct/lab-x-app/cpu.cfs_period_us": "50000", "cpu,cpuacct/lab-x-app/cpu.cfs_quota_us": "12500",
				"memory/lab-x-app/memory.limit_in_bytes": "268435456",
			},
		},
		{
			name:   "v2 before the boot",
			before: map[string]string{"cgroup.controllers": "cpu memory pids", "cgroup.procs": ""},
			want: map[string]string{
				"cgroup.subtree_control": "+pids", // the last one written; the kernel adds them up
				"lab-x-app/cpu.max":      "12500 50000", "lab-x-app/memory.max": "268435456",
			},
		},
		{
			name:   "v2 after the boot: the group that the machine sees bears the caps",
			before: map[string]string{"cgroup.controllers": "cpu memory pids", "cgroup.procs": ""},
			groups: []string{"lab-x-app/payload"},
			want: map[string]string{
				"cgroup.subtree_control": "+pids",
				"lab-x-app/cpu.max":      "max 50000", "lab-x-app/memory.max": "max",
				"lab-x-app/payload/cpu.max": "12500 50000", "lab-x-app/payload/memory.max": "268435456",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			for name, content := range tt.before {
				if err := atomicfile.Write(filepath.Join(root, name), []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
				tt.want[name] = content
			}
			for link, target := range tt.links {
				if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
					t.Fatal(err)
				}
			}
			c := cgroupIn(root, "lab-x-app")
			if err := c.create(); err != nil {
				t.Fatal(err)
			}
			for _, g := range tt.groups {
				if err := atomicfile.Write(filepath.Join(root, g, "cpu.max"), []byte("max 100000"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.limit(0.25, 256); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, tree(t, root)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCgroupWithoutHierarchies(t *testing.T) {
	root := t.TempDir()
	err := cgroupIn(root, "lab-x-app").create()
	if err == nil || err.Error() != "no cgroup hierarchy is mounted at "+root {
		t.Errorf("got %v", err)
	}
}
