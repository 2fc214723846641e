package infra

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// k3sOf is a stand-in for a k3s of a version, and its sum.
func k3sOf(version string) (text, sum string) {
	text = "#!/bin/sh\n[ \"$1\" = --version ] && echo 'k3s version " + version + " (abcdef)' && echo 'go version go1.26'\n"
	return text, fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
}

func TestStage(t *testing.T) {
	const version = "v1.36.4+k3s1"
	text, sum := k3sOf(version)
	old, _ := k3sOf("v1.34.1+k3s1")
	images := fmt.Sprintf("%x", sha256.Sum256([]byte("images")))
	other := strings.Repeat("0", 64)
	for _, row := range []struct {
		name      string
		variables map[string]string
		current   string
		ip        string
		want      string
		staged    bool
	}{
		{"the file of the pinned sum", nil, "", "", "", true},
		{"another file", map[string]string{"sum": other}, "", "", "has the sha256 " + sum + ", pinned is " + other + ": nothing was replaced", false},
		{"another version than it says", map[string]string{"version": "v1.36.5+k3s1"}, "", "", "the file is not k3s v1.36.5+k3s1 for this machine: k3s version v1.36.4+k3s1", false},
		{"a host two minor versions behind", nil, old, "", "this host runs v1.34.1+k3s1, and v1.36.4+k3s1 skips a minor version", true},
		{"images of the pinned sum", map[string]string{"images_sum": images}, "", "", "", true},
		{"other images", map[string]string{"images_sum": other}, "", "", "the archive of images has the sha256 " + images, true},
		{"a host without a default route", nil, "", "#!/bin/sh\n", "without a default route", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := newBed(t)
			b.write("copied/k3s", text)
			b.write("copied/images", "images")
			if row.current != "" {
				b.write("home/current/k3s", row.current)
			}
			if row.ip != "" {
				b.write("bin/ip", row.ip)
			}
			variables := map[string]string{"sum": sum, "version": version, "copied": b.path("copied/k3s"), "url": "", "images": "", "images_sum": "", "images_name": "i.tar.zst"}
			maps.Copy(variables, row.variables)
			if variables["images_sum"] != "" {
				variables["images"] = b.path("copied/images")
			}
			out, err := b.run(variables, "", "cluster-stage.sh")
			b.check("staged", out, err, row.want)
			if got := b.read("home/" + variables["sum"][:16] + "/k3s"); (got == text) != row.staged {
				t.Errorf("staged %q, want %v", got, row.staged)
			}
			if left, err := filepath.Glob(b.path("home/.new*")); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
			if got := b.read("data/agent/images/i.tar.zst"); (got == "images") != (variables["images_sum"] == images) {
				t.Errorf("images %q", got)
			}
			if row.current != "" && b.read("home/current/k3s") != row.current {
				t.Error("the program that runs was replaced")
			}
		})
	}
}

// A host that changes its role or distribution would run both.
func TestStagingRefusesAHostThatIsAnotherNodeStill(t *testing.T) {
	b := newBed(t)
	text, sum := k3sOf("v1.36.4+k3s1")
	b.write("copied/k3s", text)
	for _, row := range []struct{ unit, want string }{
		{"k3s-agent.service", "this host has k3s-agent.service, and would get k3s.service beside it"},
		{"labkube.service", "this host has labkube.service"},
		{"k3s.service", ""},
	} {
		b.write("bin/systemctl", "#!/bin/sh\n[ \"$2\" = "+row.unit+" ]\n")
		variables := map[string]string{"sum": sum, "version": "v1.36.4+k3s1", "copied": b.path("copied/k3s"), "url": "", "images": "", "unit": "k3s.service"}
		out, err := b.run(variables, "", "cluster-stage.sh")
		b.check(row.unit, out, err, row.want)
	}
}

func TestStagingAgainDoesNotFetchAgain(t *testing.T) {
	b := newBed(t)
	text, sum := k3sOf("v1.36.4+k3s1")
	b.write("copied/k3s", text)
	variables := map[string]string{"sum": sum, "version": "v1.36.4+k3s1", "copied": b.path("copied/k3s"), "url": "", "images": ""}
	for _, name := range []string{"first", "again"} {
		out, err := b.run(variables, "", "cluster-stage.sh")
		b.check(name, out, err, "")
		if err := os.RemoveAll(b.path("copied")); err != nil {
			t.Fatal(err)
		}
	}
}

// The bundle's sum is what nodes are upgraded by: the same programs, the same sum.
func TestLabkubesBundleIsReproducible(t *testing.T) {
	script, err := os.ReadFile("../scripts/labkube-bundle.sh")
	if err != nil {
		t.Fatal(err)
	}
	b := newBed(t)
	b.write("scripts/labkube-bundle.sh", string(script))
	bundle := func(labkube string) string {
		b.write("scripts/labkube.sh", `#!/bin/bash
set -euo pipefail
[ "$GOARCH" = amd64 ]
mkdir -p .toolchain/labkube
cd .toolchain/labkube
for f in containerd containerd-shim-runc-v2 ctr coredns metrics-server pause.tar; do echo "$f" >"$f"; done
echo `+labkube+` >labkube
touch -d "@$RANDOM" labkube
echo built
`)
		cmd := exec.Command(b.path("scripts/labkube-bundle.sh"), "amd64")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		made, err := parseBinary(string(out))
		if err != nil {
			t.Fatal(err)
		}
		if text := b.read(made.Path); made.Path != ".lab/build/labkube-amd64.tar" || fmt.Sprintf("%x", sha256.Sum256([]byte(text))) != made.SHA256 {
			t.Errorf("it printed %+v of %d bytes", made, len(text))
		}
		return made.SHA256
	}
	first := bundle("one")
	if again := bundle("one"); again != first {
		t.Errorf("the same programs have the sums %s and %s", first, again)
	}
	if other := bundle("two"); other == first {
		t.Error("another labkube has the same sum")
	}
}
