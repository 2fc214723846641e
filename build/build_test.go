package build

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// tree is a project with the sources of every binary.
func tree(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for _, target := range targets {
		for _, dir := range target.sources {
			write(t, root, dir+"/a.go", "package a\n")
		}
	}
	write(t, root, "go.mod", "module lab\n")
	write(t, root, "go.sum", "")
	return root
}

func write(t *testing.T, root, path, text string) {
	t.Helper()
	path = filepath.Join(root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestSourceDigest(t *testing.T) {
	for _, row := range []struct {
		name, binary, path, text string
		changes                  bool
	}{
		{"a source", "runner", "loadtest/engine/a.go", "package a // x\n", true},
		{"a new file", "runner", "loadtest/plan/b.go", "package a\n", true},
		{"the modules", "app", "go.mod", "module lab\n\ngo 1.26\n", true},
		{"the modules' sums", "runner", "go.sum", "x\n", true},
		{"a test", "runner", "loadtest/engine/a_test.go", "package a\n", false},
		{"an embedded file", "runner", "loadtest/k6/lab.js", "// x\n", true},
		{"what is not Go", "app", "app/README.md", "x\n", false},
		{"another binary's source", "runner", "app/a.go", "package a // x\n", false},
		{"a package of neither", "app", "infra/a.go", "package a\n", false},
	} {
		root := tree(t)
		before, err := SourceDigest(root, row.binary)
		if err != nil {
			t.Fatal(err)
		}
		write(t, root, row.path, row.text)
		after, err := SourceDigest(root, row.binary)
		if err != nil {
			t.Fatal(err)
		}
		if (before != after) != row.changes {
			t.Errorf("%s changed: the digest of %s went from %s to %s, want a change: %v", row.name, row.binary, before, after, row.changes)
		}
	}
}

func TestTreeDigest(t *testing.T) {
	for _, row := range []struct {
		name, path string
		changes    bool
	}{
		{"a file", "scripts/make.sh", true},
		{"a source deep below", "tools/x/sub/deep/a.go", true},
		{"a new file of a folder", "tools/x/files/new.yaml", true},
		{"a test", "tools/x/sub/a_test.go", false},
		{"a page", "tools/x/README.md", false},
		{"what was not asked for", "tools/y/a.go", false},
	} {
		root := t.TempDir()
		for _, path := range []string{"scripts/make.sh", "tools/x/sub/deep/a.go", "tools/x/sub/a_test.go", "tools/x/README.md", "tools/y/a.go"} {
			write(t, root, path, "x")
		}
		before, err := TreeDigest(root, "tools/x", "scripts/make.sh")
		if err != nil {
			t.Fatal(err)
		}
		write(t, root, row.path, "y")
		if after, err := TreeDigest(root, "tools/x", "scripts/make.sh"); err != nil || (after != before) != row.changes {
			t.Errorf("%s: the digest went from %s to %s, %v; want a change: %v", row.name, before, after, err, row.changes)
		}
	}
	if _, err := TreeDigest(t.TempDir(), "tools/x"); err == nil {
		t.Error("a folder that is not there has a digest")
	}
}

func TestSourceDigestCountsWhereAFileEnds(t *testing.T) {
	one, two := tree(t), tree(t)
	write(t, one, "app/a.go", "ab")
	write(t, one, "app/b.go", "c")
	write(t, two, "app/a.go", "a")
	write(t, two, "app/b.go", "bc")
	a, errA := SourceDigest(one, "app")
	b, errB := SourceDigest(two, "app")
	if errA != nil || errB != nil || a == b {
		t.Errorf("digests %s and %s, %v, %v; want two", a, b, errA, errB)
	}
}

// The list of folders is written by hand: one that is missing here would leave
// an old binary on the hosts.
func TestSourcesCoverEveryPackageOfOursThatABinaryImports(t *testing.T) {
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	for name, target := range targets {
		listed := map[string]bool{}
		for _, dir := range target.sources {
			listed["lab/"+dir] = true
		}
		for _, dir := range target.sources {
			files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
			if err != nil || len(files) == 0 {
				t.Fatalf("%s: no sources in %s, %v", name, dir, err)
			}
			for _, f := range files {
				raw, err := os.ReadFile(f)
				if err != nil {
					t.Fatal(err)
				}
				for line := range strings.Lines(string(raw)) {
					path, ok := strings.CutPrefix(strings.TrimSpace(line), `"lab/`)
					if ok && !strings.HasSuffix(f, "_test.go") && !listed["lab/"+strings.TrimSuffix(path, `"`)] {
						t.Errorf("%s: %s imports lab/%s, whose sources are not counted", name, f, path)
					}
				}
			}
		}
	}
}

func TestMakeRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, row := range []struct{ name, arch, want string }{
		{"shop", "amd64", "[app pause runner]"}, {"app", "sparc", "[amd64 arm64]"},
	} {
		if _, err := Make(t.Context(), t.TempDir(), row.name, row.arch, io.Discard); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("build %s for %s: %v, want %q", row.name, row.arch, err, row.want)
		}
	}
}

// The checksum of a binary starts a load test again: neither the commit nor the
// folder may be in it, whatever the machine's own Go settings are.
func TestTheSameSourcesMakeTheSameBinary(t *testing.T) {
	t.Setenv("GOFLAGS", "-buildvcs=true")
	var sums []string
	for _, commit := range []string{"one", "another"} {
		root := t.TempDir()
		write(t, root, "go.mod", "module lab\n\ngo 1.26\n")
		write(t, root, "app/main.go", "package main\n\nfunc main() {}\n")
		for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "-q", "-m", commit}} {
			if out, err := exec.Command("git", append([]string{"-C", root}, args...)...).CombinedOutput(); err != nil {
				t.Fatalf("git %v: %v\n%s", args, err, out)
			}
		}
		b, err := Make(t.Context(), root, "app", "amd64", io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(filepath.Join(root, b.Path))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(raw), root) || strings.Contains(string(raw), "vcs.revision") {
			t.Error("the binary names its folder or its commit")
		}
		sums = append(sums, b.SHA256)
	}
	if sums[0] != sums[1] {
		t.Errorf("sha256 %s and %s, want one", sums[0], sums[1])
	}
}
