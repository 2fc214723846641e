package loadtest

import (
	"bytes"
	"crypto/sha256"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lab/archivetest"
	"lab/config/configtest"
	"lab/infra"
	"lab/loadtest/analysis"
)

const k6Config = `{"scenario": {"engine": "k6", "k6": {"script": "testdata/k6/own.js"}},
 "k6": {"version": "v2.2.0", "url": "https://example.org/k6-{version}-linux-{arch}.tar.gz",
  "sha256": {"amd64": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "arm64": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"}}}`

func TestK6Config(t *testing.T) {
	c, problems := LoadConfig([]byte(k6Config), Lab{Generators: 1})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	path, url, sum := c.K6.from("arm64")
	if path != "" || url != "https://example.org/k6-v2.2.0-linux-arm64.tar.gz" || !strings.HasPrefix(sum, "bbb") {
		t.Errorf("path %q, url %q, sum %q", path, url, sum)
	}
	if !strings.Contains(c.k6Script, "measured(") || len(c.Scenario.K6.ScriptSHA256) != 64 {
		t.Errorf("script %q, sum %q", c.k6Script, c.Scenario.K6.ScriptSHA256)
	}
	// Runs of the built-in engine keep the digest that they had without k6's keys.
	if raw := configtest.AsJSON(t, analysis.DefaultScenario()); strings.Contains(string(raw), `"k6"`) {
		t.Errorf("the default scenario names k6: %s", raw)
	}
}

func TestK6IsInstalledWhereTheLoadIsMade(t *testing.T) {
	c, problems := LoadConfig([]byte(k6Config), Lab{Generators: 1})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	m := &mocks{sha256: "abc"}
	before := declare(t, c, m, unchanged)
	script := m.find(t, "loadgen-k6").Inputs
	stdin := script["stdin"].SecretValue().Element.StringValue()
	for _, want := range []string{"version='v2.2.0'", "url='https://example.org/k6-v2.2.0-linux-", "binary='" + k6Binary + "'"} {
		if !strings.Contains(stdin, want) {
			t.Errorf("the script has no %s", want)
		}
	}
	if load := m.find(t, "load").Inputs["stdin"].SecretValue().Element.StringValue(); !strings.Contains(load, `"k6":{"binary":"`+k6Binary+`"`) || !strings.Contains(load, "measured(") {
		t.Error("the plan does not name k6 and the script")
	}
	c.k6Script += "\n"
	if after := declare(t, c, &mocks{sha256: "abc"}, unchanged); after["inputsDigest"] == before["inputsDigest"] {
		t.Error("another script is no reason to measure again")
	}
}

// fakeK6 says that it is k6 of a version.
func fakeK6(version string) []byte {
	return fmt.Appendf(nil, "#!/bin/sh\necho 'k6 %s (commit/abc, go1.26, linux/amd64)'\n", version)
}

// install runs the script as a host does, with the functions that every script has.
func install(t *testing.T, environment []string, variables map[string]string) (said string, err error) {
	t.Helper()
	var stdin strings.Builder
	for name, value := range variables {
		fmt.Fprintf(&stdin, "%s='%s'\n", name, value)
	}
	_, functions, found := strings.Cut(infra.File("lib.sh"), "\n# install_packages")
	if !found {
		t.Fatal("lib.sh has no install_packages")
	}
	stdin.WriteString("lab_script=k6\n#" + functions + "\nlog() { echo \"$*\" >&2; }\nlab_main() {\n" + text("k6.sh") + "\n}\nlab_main </dev/null\n")
	cmd := exec.Command("bash", "-Eeuo", "pipefail")
	cmd.Stdin, cmd.Env = strings.NewReader(stdin.String()), append(os.Environ(), environment...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func sum(content []byte) string { return fmt.Sprintf("%x", sha256.Sum256(content)) }

func TestInstallK6ReplacesNothingUnchecked(t *testing.T) {
	dir := t.TempDir()
	binary, given := filepath.Join(dir, "lib", "k6"), filepath.Join(dir, "given")
	good := fakeK6("v2.2.0")
	for _, row := range []struct {
		name, version  string
		content        []byte
		sha256, failed string // "" when it is installed
		want           []byte
	}{
		{"a wrong sum, nothing there", "v2.2.0", good, sum(nil), "nothing was replaced", nil},
		{"a copied file", "v2.2.0", good, sum(good), "", good},
		{"again", "v2.2.0", nil, sum(good), "", good},
		{"a wrong sum of another version", "v2.3.0", fakeK6("v2.3.0"), sum(good), "nothing was replaced", good},
		{"another version than pinned", "v2.3.0", fakeK6("v2.4.0"), sum(fakeK6("v2.4.0")), "is not k6 v2.3.0", good},
		{"an archive", "v2.3.0", archivetest.TarGz(t, "k6-v2.3.0-linux-amd64/k6", fakeK6("v2.3.0")), sum(archivetest.TarGz(t, "k6-v2.3.0-linux-amd64/k6", fakeK6("v2.3.0"))), "", fakeK6("v2.3.0")},
		{"an archive without it", "v2.2.0", archivetest.TarGz(t, "README", good), sum(archivetest.TarGz(t, "README", good)), "holds no file k6", fakeK6("v2.3.0")},
		{"back to the first", "v2.2.0", good, sum(good), "", good},
	} {
		if err := os.Remove(given); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if row.content != nil {
			if err := os.WriteFile(given, row.content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		said, err := install(t, nil, map[string]string{"binary": binary, "version": row.version, "sha256": row.sha256, "url": "", "copied": given})
		if (err == nil) != (row.failed == "") || !strings.Contains(said, row.failed) {
			t.Errorf("%s: %v, said %q, want %q", row.name, err, said, row.failed)
		}
		if got, _ := os.ReadFile(binary); !bytes.Equal(got, row.want) {
			t.Errorf("%s: there is %q, want %q", row.name, got, row.want)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "lib", ".lab-k6.*")); len(left) > 0 {
			t.Errorf("%s: left behind %v", row.name, left)
		}
	}
}

func TestInstallK6FromAnAddress(t *testing.T) {
	file := archivetest.TarGz(t, "k6-v2.2.0-linux-amd64/k6", fakeK6("v2.2.0"))
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/k6.tar.gz" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(file)
	}))
	defer server.Close()
	dir := t.TempDir()
	ca, binary := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "k6")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	trusted := []string{"CURL_CA_BUNDLE=" + ca, "no_proxy=127.0.0.1"}
	for _, row := range []struct {
		name        string
		environment []string
		path        string
		installed   bool
	}{
		{"an address that is not there", trusted, "/missing", false},
		{"a certificate that nobody vouches for", []string{"no_proxy=127.0.0.1"}, "/k6.tar.gz", false},
		{"good", trusted, "/k6.tar.gz", true},
	} {
		said, err := install(t, row.environment, map[string]string{"binary": binary, "version": "v2.2.0", "sha256": sum(file), "url": server.URL + row.path, "copied": ""})
		_, missing := os.Stat(binary)
		if (err == nil) != row.installed || (missing == nil) != row.installed {
			t.Errorf("%s: %v, %v, said %q", row.name, err, missing, said)
		}
	}
}
