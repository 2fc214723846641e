package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const labKubeconfig = `apiVersion: v1
kind: Config
clusters:
  - name: lab-home
    cluster: {server: "https://192.168.1.51:6443"}
users:
  - name: lab-home
    user: {client-key-data: S0VZ}
contexts:
  - name: lab-home
    context: {cluster: lab-home, user: lab-home}
current-context: lab-home
`

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func backups(t *testing.T, path string) []string {
	t.Helper()
	found, err := filepath.Glob(path + ".before-lab-*")
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestKubeconfigIsKeptForItsOwnerAndMergedAfterABackup(t *testing.T) {
	t.Chdir(t.TempDir())
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("KUBECONFIG", "")
	own := filepath.Join(home, ".kube", "config")

	if _, _, err := run(t, "", "kubeconfig", "merge", "home"); err == nil || !strings.Contains(err.Error(), "bring its cluster up first") {
		t.Errorf("before there is one: %v", err)
	}
	if _, _, err := run(t, labKubeconfig, "kubeconfig", "write", "home"); err != nil {
		t.Fatal(err)
	}
	if kept := ".lab/kubeconfig/home.yaml"; mode(t, kept) != 0o600 || mode(t, filepath.Dir(kept)) != 0o700 {
		t.Errorf("%s has mode %o", kept, mode(t, kept))
	}
	if _, _, err := run(t, "", "kubeconfig", "merge", "home"); err != nil {
		t.Fatal(err)
	}
	if mode(t, own) != 0o600 || len(backups(t, own)) != 0 {
		t.Errorf("a new file has mode %o and backups %v", mode(t, own), backups(t, own))
	}

	const before = "current-context: work\ncontexts:\n  - name: work\n"
	if err := os.WriteFile(own, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second changes nothing, so it backs nothing up
		if _, _, err := run(t, "", "kubeconfig", "merge", "home"); err != nil {
			t.Fatal(err)
		}
	}
	copies := backups(t, own)
	if len(copies) != 1 || mode(t, copies[0]) != 0o600 {
		t.Fatalf("backups: %v", copies)
	}
	for path, want := range map[string]string{copies[0]: before, own: "current-context: work"} {
		if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %q, %v; want %q", path, text, err, want)
		}
	}

	for range 2 {
		if _, _, err := run(t, "", "kubeconfig", "remove", "home"); err != nil {
			t.Errorf("remove: %v", err)
		}
	}
	if left, err := filepath.Glob(".lab/kubeconfig/*"); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestMergeFollowsALinkAndTheFirstFileOfKUBECONFIG(t *testing.T) {
	t.Chdir(t.TempDir())
	dir := t.TempDir()
	target, link := filepath.Join(dir, "real"), filepath.Join(dir, "link")
	if err := os.WriteFile(target, []byte("kind: Config\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", link+":"+filepath.Join(dir, "other"))
	if _, _, err := run(t, labKubeconfig, "kubeconfig", "write", "home"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := run(t, "", "kubeconfig", "merge", "home"); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is none any more: %v", err)
	}
	if text, err := os.ReadFile(target); err != nil || !strings.Contains(string(text), "lab-home") {
		t.Errorf("%q, %v", text, err)
	}
}

func TestKubeconfigOfNoStack(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, command := range []string{"write", "remove", "merge"} {
		if _, _, err := run(t, "", "kubeconfig", command, "../home"); err == nil || !strings.Contains(err.Error(), "no name of a stack") {
			t.Errorf("%s: %v", command, err)
		}
	}
}
