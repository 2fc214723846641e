package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

// release serves the lists of sums of v1.36.4+k3s1; without says what they lack.
func release(t *testing.T, without string) *httptest.Server {
	t.Helper()
	list := func(arch, binary string, sum byte) string {
		lines := fmt.Sprintf("%s  k3s-airgap-images-%s.tar.zst\n%s  %s\n",
			strings.Repeat("d", 64), arch, strings.Repeat(string(sum), 64), binary)
		if without != "" {
			lines = strings.ReplaceAll(lines, without, "gone")
		}
		return lines
	}
	mux := http.NewServeMux()
	for arch, text := range map[string]string{"amd64": list("amd64", "k3s", 'a'), "arm64": list("arm64", "k3s-arm64", 'b')} {
		mux.HandleFunc("/v1.36.4+k3s1/sha256sum-"+arch+".txt", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) })
	}
	mux.HandleFunc("/moved/", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://k3s.example/list.txt", http.StatusFound)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func TestPinK3s(t *testing.T) {
	t.Chdir(t.TempDir())
	const before = "# mine\nconfig:\n  lab:infra:\n    cluster: {distribution: k3s, images: {path: images.tar.zst}}\n"
	if err := os.WriteFile("Pulumi.home.yaml", []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _, err := run(t, "", "pin", "k3s", "v1.36.4+k3s1", "--stack", "home", "--from", release(t, "").URL+"/{version}")
	if err != nil {
		t.Fatal(err)
	}
	a, b, d := strings.Repeat("a", 64), strings.Repeat("b", 64), strings.Repeat("d", 64)
	if want := a + "  k3s\n" + b + "  k3s-arm64\n"; out != want {
		t.Errorf("printed %q, want %q", out, want)
	}
	text, err := os.ReadFile("Pulumi.home.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# mine", "version: v1.36.4+k3s1", "sha256: {amd64: " + a + ", arm64: " + b + "}", "path: images.tar.zst, sha256: {amd64: " + d} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if mode(t, "Pulumi.home.yaml") != 0o600 {
		t.Errorf("the file's mode became %o", mode(t, "Pulumi.home.yaml"))
	}
}

func TestPinWantsAStack(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, _, err := run(t, "", "pin", "k3s", "v1.36.4+k3s1"); err == nil || !strings.Contains(err.Error(), `"stack"`) || exitStatus(err) != exitUsage {
		t.Error(err)
	}
}

func TestPinThatFailsLeavesTheStackAsItWas(t *testing.T) {
	t.Chdir(t.TempDir())
	const before = "config: {}\n"
	if err := os.WriteFile("Pulumi.home.yaml", []byte(before), 0o644); err != nil {
		t.Fatal(err)
	}
	whole := release(t, "").URL
	for _, row := range []struct {
		name, version, stack, from, want string
		status                           int
	}{
		{"no version of k3s", "stable", "home", whole, "no version of k3s", exitUsage},
		{"a version that is not there", "v1.99.0+k3s1", "home", whole + "/{version}", "404", exitFailed},
		{"a list without the binary", "v1.36.4+k3s1", "home", release(t, "k3s-arm64").URL + "/{version}", "no sum of k3s-arm64", exitFailed},
		{"sums in the clear", "v1.36.4+k3s1", "home", "http://k3s.example", "not https", exitFailed},
		{"sums that come in the clear in the end", "v1.36.4+k3s1", "home", whole + "/moved", "not https", exitFailed},
		{"no such stack", "v1.36.4+k3s1", "away", whole + "/{version}", "there is no Pulumi.away.yaml", exitFailed},
		{"a stack of another folder", "v1.36.4+k3s1", "../home", whole + "/{version}", "no name of a stack", exitFailed},
	} {
		_, _, err := run(t, "", "pin", "k3s", row.version, "--stack", row.stack, "--from", row.from)
		if err == nil || !strings.Contains(err.Error(), row.want) || exitStatus(err) != row.status {
			t.Errorf("%s: %v, want %q", row.name, err, row.want)
		}
		if text, err := os.ReadFile("Pulumi.home.yaml"); err != nil || string(text) != before {
			t.Errorf("%s: the stack's file became %q, %v", row.name, text, err)
		}
	}
}
