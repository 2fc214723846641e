package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestLabIsToldItsCommit builds a small lab by the real script, in a repository of
// its own.
func TestLabIsToldItsCommit(t *testing.T) {
	project := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		path = filepath.Join(project, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = project
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	built := func() string {
		t.Helper()
		run(filepath.Join(project, "scripts", "lab.sh"))
		return run(filepath.Join(project, ".toolchain", "bin", "lab"))
	}
	copyFile(t, "../scripts/lab.sh", filepath.Join(project, "scripts", "lab.sh"))
	write("go.mod", "module lab\n")
	write("cmd/lab/main.go", "package main\n\nvar builtFrom string\n\nfunc main() { println(builtFrom) }\n")
	write("Pulumi.local.yaml", "config: {}\n")
	write(".gitignore", "/.toolchain/\n")
	if got := built(); got != "unknown" {
		t.Errorf("without a repository: %q, want unknown", got)
	}
	run("git", "init", "-q")
	run("git", "add", ".")
	run("git", "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "first")
	commit := run("git", "rev-parse", "--short=12", "HEAD")
	if got := built(); got != commit {
		t.Errorf("as committed: %q, want %q", got, commit)
	}
	write("Pulumi.local.yaml", "config: {lab:loadtest: {step: another}}\n")
	if got := built(); got != commit {
		t.Errorf("with another setting: %q, want %q", got, commit)
	}
	write("cmd/lab/more.go", "package main\n")
	if got := built(); got != commit+"+changed" {
		t.Errorf("with a file more: %q, want %q", got, commit+"+changed")
	}
}
