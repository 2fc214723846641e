package loadtest

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lab/loadtest/analysis"
	"lab/loadtest/plan"
)

// Every host's sampler gets the list of the services there, with the one password
// that a service of its own needs and no other's, in a preview as in an update.
func TestTheServicesOfAHostAreASecretOfItsSampler(t *testing.T) {
	const password = "topsecret-redis-password"
	postgres := plan.Service{Kind: analysis.ServicePostgres, Address: "/var/run/postgresql", User: "lab_monitor", Database: "app", Limit: 96}
	for name, m := range map[string]*mocks{"preview": {preview: true}, "update": {sha256: "s1", result: holds(t)}} {
		declare(t, stackConfig(t), m, unchanged)
		for host, want := range map[string][]plan.Service{
			"database": {postgres},
			"cache":    {{Kind: analysis.ServiceRedis, Address: "10.77.0.13:6379", Password: password}},
			"edge":     {{Kind: analysis.ServiceNginx, Address: "http://127.0.0.1:80/-/status", Limit: 2048}},
			"app":      {{Kind: analysis.ServiceApp, Address: "http://127.0.0.1:8080/metrics"}},
			"loadgen":  {},
		} {
			text := assigned(t, m.stdin(t, host+"-sampler"), "services")
			raw, err := withPassword(want, "")
			if err != nil {
				t.Fatal(err)
			}
			if host == "cache" {
				raw, err = withPassword(want, password)
				if err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(raw, text); diff != "" {
				t.Errorf("%s, %s: %s", name, host, diff)
			}
		}
		for _, d := range m.declared {
			for key, value := range d.Inputs {
				if key != "stdin" && strings.Contains(fmt.Sprint(value), "topsecret") {
					t.Errorf("%s: %s shows a secret in %s", name, d.Name, key)
				}
			}
		}
		// The plan goes to the load generator: it names the services and holds no password.
		if text := assigned(t, m.stdin(t, "load"), "plan"); strings.Contains(text, password) || !strings.Contains(text, `"services":["redis"]`) {
			t.Errorf("%s: the plan is %s", name, text)
		}
	}
}

// assigned is the value of a variable in a script's standard input.
func assigned(t *testing.T, stdin, name string) string {
	t.Helper()
	_, rest, ok := strings.Cut(stdin, "\n"+name+"='")
	value, _, closed := strings.Cut(rest, "'\n")
	if !ok || !closed {
		t.Fatalf("the script has no variable %s", name)
	}
	return value
}

// A process list shows every command's arguments to everybody: a secret may stand
// only with what is no process, a function or a builtin of the shell.
func TestNoScriptOrUnitPutsASecretIntoArguments(t *testing.T) {
	secret := regexp.MustCompile(`\$\{?(token|services|plan)\b`)
	checked := 0
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		commands := strings.ReplaceAll(text(strings.TrimPrefix(path, "files/")), "\\\n", " ")
		for line := range strings.Lines(commands) {
			if !secret.MatchString(line) {
				continue
			}
			checked++
			if command := strings.Fields(line)[0]; command != "write_if_changed" && command != "printf" {
				t.Errorf("%s: %s", path, line)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if checked < 4 {
		t.Errorf("only %d commands with a secret were found", checked)
	}
}
