package infra

import (
	"lab/golden"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestRenderedSettings(t *testing.T) {
	d := Defaults()
	for name, render := range map[string]func() (string, error){
		"postgres-512.conf": func() (string, error) { return postgresSettings(d.Postgres, "10.77.0.12", 512) },
		"postgres-8192.conf": func() (string, error) {
			return postgresSettings(PostgresConfig{MaxConnections: 300, WorkMemMiB: 16}, "10.77.0.12", 8192)
		},
		"redis-default.conf": func() (string, error) { return redisSettings(d.Redis, "10.77.0.13", 256) },
		"redis-limited.conf": func() (string, error) {
			return redisSettings(RedisConfig{MaxMemoryMiB: 64, Policy: "noeviction"}, "10.77.0.13", 256)
		},
		"nginx-default.conf": func() (string, error) { return edgeSettings(d.Edge, []string{"10.77.0.11:8080"}) },
		"nginx-without-keepalive.conf": func() (string, error) {
			return edgeSettings(EdgeConfig{Workers: 4, WorkerConnections: 1024, BufferKiB: 32}, []string{"10.77.0.11:8080"})
		},
		"nginx-of-three-nodes.conf": func() (string, error) {
			return edgeSettings(d.Edge, []string{"10.77.0.16:30080", "10.77.0.17:30080", "10.77.0.18:30080"})
		},
		"nginx-of-one-node.conf": func() (string, error) { return edgeSettings(d.Edge, []string{"10.77.0.16:30080"}) },
	} {
		t.Run(name, func(t *testing.T) {
			got, err := render()
			if err != nil {
				t.Fatal(err)
			}
			golden.Check(t, "testdata/rendered/"+name, got+"\n")
		})
	}
}

func TestSpecs(t *testing.T) {
	c := singleMachine(t)
	network := networkSpec(c, 3)
	if err := network.Validate(); err != nil {
		t.Error(err)
	}
	text, err := jsonText(network)
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/rendered/network.json", text+"\n")
	key, err := authorizedKey(seed)
	if err != nil {
		t.Fatal(err)
	}
	machine := machineSpec(c, 1, 2, key, seed)
	if err := machine.Validate(); err != nil {
		t.Error(err)
	}
	if text, err = jsonText(machine); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/rendered/machine.json", text+"\n")
}

func TestScriptStdinQuotesVariablesAndSortsThem(t *testing.T) {
	got := scriptStdin("demo", time.Minute, "true", map[string]string{"b": "it's $HOME"}, map[string]string{"a": "x\ny"})
	want := "a='x\ny'\nb='it'\\''s $HOME'\nlab_script='demo'\nlab_timeout='60'\n#!/bin/bash\n"
	if !strings.HasPrefix(got, want) {
		t.Errorf("begins with %q, want %q", got[:min(len(got), len(want))], want)
	}
	if !strings.HasSuffix(got, "\nlab_main() {\ntrue\n}\nlab_main </dev/null\nexit\n") {
		t.Errorf("ends with %q", got[max(0, len(got)-60):])
	}
}

func TestScriptCommandShowsNoScript(t *testing.T) {
	if got := scriptCommand(90 * time.Second); got != "timeout --kill-after=10 90 bash -s" {
		t.Error(got)
	}
}

func TestCheckVariables(t *testing.T) {
	for _, c := range []struct {
		name      string
		variables map[string]string
		secrets   []string
		ok        bool
	}{
		{"lower case with digits", map[string]string{"a_1": ""}, []string{"b"}, true},
		{"a name of the library's", map[string]string{"lab_script": ""}, nil, false},
		{"code as a name", map[string]string{"a;reboot": ""}, nil, false},
		{"upper case, which the environment owns", nil, []string{"PATH"}, false},
		{"a variable and a secret of one name", map[string]string{"a": ""}, []string{"a"}, false},
	} {
		if err := checkVariables(c.variables, c.secrets); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestScriptsAreBash(t *testing.T) {
	for name, text := range embeddedFiles() {
		if !strings.HasSuffix(name, ".sh") {
			continue
		}
		cmd := exec.Command("bash", "-n")
		cmd.Stdin = strings.NewReader(scriptStdin(name, time.Minute, text, nil, nil))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
