package e2e

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"lab/archivetest"
)

// TestRelease downloads releases from a mirror on this machine.
func TestRelease(t *testing.T) {
	good := archivetest.TarGz(t, "pulumi/pulumi", []byte("#!/bin/sh\necho v3.221.0\n"))
	file := "pulumi-v3.221.0-linux-" + map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH] + ".tar.gz"
	for _, test := range []struct {
		name   string
		served []byte // nil: 404
		says   string // "": it is installed
	}{
		{"the pinned file is installed", good, ""},
		{"another file is refused, and both sums are named", append([]byte("x"), good...), "tools/pulumi/release.sha256 says "},
		{"no file is no release", nil, "can't be had here"},
	} {
		t.Run(test.name, func(t *testing.T) {
			mirror := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if test.served == nil || r.URL.Path != "/"+file {
					http.NotFound(w, r)
					return
				}
				_, _ = w.Write(test.served)
			}))
			defer mirror.Close()
			project, temp := t.TempDir(), t.TempDir()
			copyFile(t, "../scripts/release.sh", filepath.Join(project, "scripts", "release.sh"))
			pins := fmt.Sprintf("%x  %s\n%064d  pulumi-v3.221.0-linux-riscv64.tar.gz\n", sha256.Sum256(good), file, 0)
			if err := os.MkdirAll(filepath.Join(project, "tools", "pulumi"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(project, "tools", "pulumi", "release.sha256"), []byte(pins), 0o644); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(filepath.Join(project, "scripts", "release.sh"), filepath.Join(project, "bin"))
			cmd.Env = append(os.Environ(), "PULUMI_RELEASES="+mirror.URL, "TMPDIR="+temp)
			out, err := cmd.CombinedOutput()
			installed := filepath.Join(project, "bin", "pulumi")
			if test.says == "" {
				version, runErr := exec.Command(installed).Output()
				if err != nil || runErr != nil || string(version) != "v3.221.0\n" {
					t.Errorf("install: %v, %v, version %q\n%s", err, runErr, version, out)
				}
			} else {
				if err == nil || !strings.Contains(string(out), test.says) {
					t.Errorf("got %v, want a failure that says %q\n%s", err, test.says, out)
				}
				if _, err := os.Stat(installed); !os.IsNotExist(err) {
					t.Errorf("something was installed: %v", err)
				}
			}
			if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
				t.Errorf("left in the temporary folder: %v %v", left, err)
			}
		})
	}
}

// TestReleaseIsPinned reads the sums that the repository pins.
func TestReleaseIsPinned(t *testing.T) {
	raw, err := os.ReadFile("../tools/pulumi/release.sha256")
	if err != nil {
		t.Fatal(err)
	}
	for _, arch := range []string{"x64", "arm64"} {
		found := false
		for line := range strings.Lines(string(raw)) {
			fields := strings.Fields(line)
			found = found || len(fields) == 2 && len(fields[0]) == 64 && strings.HasSuffix(fields[1], "-linux-"+arch+".tar.gz")
		}
		if !found {
			t.Errorf("no sum for linux-%s", arch)
		}
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	raw, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, raw, 0o755); err != nil {
		t.Fatal(err)
	}
}
