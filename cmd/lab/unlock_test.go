package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestUnlock(t *testing.T) {
	const living, host = 7, "here"
	cases := []struct {
		name, lock string
		kept       bool
	}{
		{"a lock of a process that is gone is removed", `{"pid": 8, "hostname": "here"}`, false},
		{"a lock of a living process stays", `{"pid": 7, "hostname": "here"}`, true},
		{"a lock of another machine stays", `{"pid": 8, "hostname": "there"}`, true},
		{"a lock without a process stays", `{"hostname": "here"}`, true},
		{"what is no lock stays", `pid 8`, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			folder := t.TempDir()
			file := filepath.Join(folder, ".pulumi/locks/organization/lab/local/1.json")
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(c.lock), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := unlock(folder, host, func(pid int) bool { return pid == living }); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(file); (err == nil) != c.kept {
				t.Errorf("kept: %t, want %t", err == nil, c.kept)
			}
		})
	}
	t.Run("a backend that is not there yet has no locks", func(t *testing.T) {
		if err := unlock(t.TempDir(), host, nil); err != nil {
			t.Error(err)
		}
	})
}
