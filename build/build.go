// Package build makes the binaries that go to the hosts, and tells when one has
// to be made again.
package build

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// target is a binary: its main package and the folders its code is in.
type target struct {
	pkg     string
	sources []string
}

var targets = map[string]target{
	"app":    {"./app", []string{"app"}},
	"pause":  {"./cmd/pause", []string{"cmd/pause"}},
	"runner": {"./loadtest/cmd/runner", []string{"atomicfile", "loadtest/analysis", "loadtest/engine", "loadtest/k6", "loadtest/orders", "loadtest/plan", "loadtest/sample", "loadtest/cmd/runner"}},
}

var archs = []string{"amd64", "arm64"}

// Binary is a binary that was made.
type Binary struct {
	Path   string `json:"path"` // below the project's folder
	SHA256 string `json:"sha256"`
}

// Root is the project's folder: the one with go.mod, at or above the current one.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.mod here or above: run it in the project's folder")
		}
	}
}

// SourceDigest identifies what a binary is made from: the files of its folders,
// since some are embedded, without tests and Markdown, and the modules' versions.
func SourceDigest(root, name string) (string, error) {
	t, ok := targets[name]
	if !ok {
		return "", fmt.Errorf("no binary %q", name)
	}
	files := []string{"go.mod", "go.sum"}
	for _, dir := range t.sources {
		found, err := filepath.Glob(filepath.Join(root, dir, "*"))
		if err != nil {
			return "", err
		}
		for _, f := range found {
			if info, err := os.Stat(f); err == nil && info.Mode().IsRegular() && !strings.HasSuffix(f, "_test.go") && filepath.Ext(f) != ".md" {
				files = append(files, filepath.Join(dir, filepath.Base(f)))
			}
		}
	}
	return filesDigest(root, files)
}

// TreeDigest identifies files and all that is in folders below the root, at any
// depth, without tests and Markdown.
func TreeDigest(root string, paths ...string) (string, error) {
	var files []string
	for _, path := range paths {
		err := filepath.WalkDir(filepath.Join(root, path), func(at string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() || strings.HasSuffix(at, "_test.go") || filepath.Ext(at) == ".md" {
				return err
			}
			below, err := filepath.Rel(root, at)
			files = append(files, below)
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return filesDigest(root, files)
}

// filesDigest identifies files below the root: their names and contents.
func filesDigest(root string, files []string) (string, error) {
	slices.Sort(files)
	sum := sha256.New()
	for _, f := range files {
		raw, err := os.ReadFile(filepath.Join(root, f))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %d\n", f, len(raw))
		sum.Write(raw)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))[:16], nil
}

// Known says whether there is such a binary for such an architecture.
func Known(name, arch string) error {
	if _, ok := targets[name]; !ok {
		return fmt.Errorf("no binary %q: want one of %v", name, slices.Sorted(maps.Keys(targets)))
	}
	if !slices.Contains(archs, arch) {
		return fmt.Errorf("no architecture %q: want one of %v", arch, archs)
	}
	return nil
}

// Make builds a static binary for an architecture. The same sources give the
// same bytes, whatever the commit and the folder: its checksum starts the load
// test again.
func Make(ctx context.Context, root, name, arch string, log io.Writer) (Binary, error) {
	if err := Known(name, arch); err != nil {
		return Binary{}, err
	}
	fmt.Fprintf(log, "building %s for %s\n", name, arch)
	path := filepath.Join(".lab", "build", name+"-"+arch)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid=", "-o", path, targets[name].pkg)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return Binary{}, fmt.Errorf("build %s for %s: %w\n%s", name, arch, err, strings.TrimSpace(string(out)))
	}
	raw, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		return Binary{}, err
	}
	return Binary{path, fmt.Sprintf("%x", sha256.Sum256(raw))}, nil
}
