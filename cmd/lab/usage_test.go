package main

import (
	"errors"
	"io"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// recordedRun is a real run of the local stack.
const recordedRun = "../../loadtest/explain/testdata/local.json"

func TestExitStatus(t *testing.T) {
	for _, row := range []struct {
		args   string
		status int
		says   string
	}{
		{"version", 0, ""},
		{"ledger", 0, ""}, // its help
		{"help ledger append", 0, ""},
		{"bogus", exitUsage, `unknown command "bogus"; see lab --help`},
		{"help bogus", exitUsage, "no help of"},
		{"ledger bogus", exitUsage, `unknown command "bogus"; see lab ledger --help`},
		{"--bogus", exitUsage, "unknown flag: --bogus; see lab --help"},
		{"table --bogus", exitUsage, "see lab table --help"},
		{"table a b", exitUsage, "at most 1 arg"},
		{"build app", exitUsage, "2 arg"},
		{"build foo amd64", exitUsage, `no binary "foo": want one of [app pause runner]`},
		{"image app", exitUsage, "2 arg"},
		{"image runner amd64", exitUsage, `no image "runner": want one of [app pause]`},
		{"image app mips", exitUsage, `no architecture "mips"`},
		{"build app mips", exitUsage, `no architecture "mips"`},
		{"machine down one", exitUsage, "2 arg"},
		{"analyze", exitUsage, "at least 1 arg"},
		{"analyze --compare " + recordedRun, exitUsage, "--compare needs two results"},
		{"analyze --svg x.svg " + recordedRun + " " + recordedRun, exitUsage, "--svg draws one result"},
		{"analyze --svg x.svg --json " + recordedRun, exitUsage, "[json svg]"},
		{"analyze nowhere.json", exitFailed, "results/STACK/"},
		{"table nowhere.jsonl", exitFailed, "there is no ledger"},
	} {
		root := newRoot()
		root.SetArgs(strings.Fields(row.args))
		root.SetOut(io.Discard)
		err := root.Execute()
		status := 0
		if err != nil {
			status = exitStatus(err)
		}
		if status != row.status || err != nil && !strings.Contains(err.Error(), row.says) {
			t.Errorf("lab %s: status %d, %v; want %d and %q", row.args, status, err, row.status, row.says)
		}
	}
	if exitStatus(errors.New("x")) != exitFailed {
		t.Error("any other error is a failure")
	}
}

func TestVersion(t *testing.T) {
	stamped := &debug.BuildInfo{Main: debug.Module{Version: "v0.0.0-20261203054934-fdfa240dd43d"}}
	for _, row := range []struct {
		builtFrom string
		info      *debug.BuildInfo
		want      string
	}{
		{"fdfa240dd43d+changed", stamped, "fdfa240dd43d+changed"},
		{"", stamped, "v0.0.0-20261203054934-fdfa240dd43d"},
		{"", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "unknown"},
		{"", nil, "unknown"},
	} {
		if got := versionOf(row.builtFrom, row.info); got != row.want {
			t.Errorf("built from %q, %v: %s, want %s", row.builtFrom, row.info, got, row.want)
		}
	}
}

// What --help prints fits a terminal, and says what a status means.
func TestHelp(t *testing.T) {
	root := newRoot()
	var all func(c *cobra.Command)
	all = func(c *cobra.Command) {
		var out strings.Builder
		c.SetOut(&out)
		if err := c.Help(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if len(strings.TrimRight(line, "\n")) > 80 && c.Name() != "completion" && c.Parent() != nil && c.Parent().Name() != "completion" {
				t.Errorf("%s --help: %s", c.CommandPath(), line)
			}
		}
		if (c == root || c.Name() == "analyze") && !strings.Contains(out.String(), "Exit status") {
			t.Errorf("%s --help has no exit status", c.CommandPath())
		}
		for _, below := range c.Commands() {
			all(below)
		}
	}
	all(root)
}
