package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lab/loadtest/analysis"
	"lab/loadtest/ledger"
)

// run is what a call prints, and its error.
func run(t *testing.T, stdin string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(strings.NewReader(stdin))
	root.SetErr(&errs)
	command, _, err := root.Find(args)
	if err != nil {
		t.Fatal(err)
	}
	command.SetOut(&out)
	err = root.Execute()
	return out.String(), errs.String(), err
}

// raw is the recorded run under another id.
func raw(t *testing.T, id string) json.RawMessage {
	t.Helper()
	text, err := os.ReadFile(recordedRun)
	if err != nil {
		t.Fatal(err)
	}
	var r analysis.Result
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	r.RunID = id
	out, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestRowsWithoutARawResultAreNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "local.jsonl")
	for _, id := range []string{"a", "b"} {
		row, err := json.Marshal(ledger.Measured{Row: ledger.Row{RunID: id, Step: "step " + id}, Result: raw(t, id)})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := run(t, string(row), "ledger", "append", path); err != nil {
			t.Fatal(err)
		}
	}
	if _, errs, err := run(t, "", "analyze", path); err != nil || errs != "" {
		t.Errorf("all there: %q, %v", errs, err)
	}
	if err := os.Remove(filepath.Join(filepath.Dir(path), "local", "a.json")); err != nil {
		t.Fatal(err)
	}
	for _, flag := range []string{"--json", "--across"} {
		out, errs, err := run(t, "", "analyze", flag, path)
		if err == nil || exitStatus(err) != exitFailed || !strings.Contains(err.Error(), "without a raw result to read again: 1") {
			t.Errorf("%s: %v, want a failure", flag, err)
		}
		if !strings.Contains(errs, "row 1 (step a, run a)") || !strings.Contains(out, "step b") || strings.Contains(out, "step a") {
			t.Errorf("%s: the missing row is not named, or the other not printed: %q\n%s", flag, errs, out)
		}
	}
	rows, err := ledger.Read(path)
	if err != nil || len(rows) != 2 || rows[0].Lab == "" || rows[0].Lab != version() {
		t.Errorf("%+v, %v; want rows that say which lab measured them", rows, err)
	}
}

func TestComparisonInASCII(t *testing.T) {
	other := filepath.Join(t.TempDir(), "other.json")
	if err := os.WriteFile(other, raw(t, "other"), 0o644); err != nil {
		t.Fatal(err)
	}
	for locale, want := range map[string]string{"C": "local -> other: 52.6 to 52.6 req/s: x1.00", "C.UTF-8": "local → other: 52.6 to 52.6 req/s: ×1.00"} {
		t.Setenv("LC_ALL", locale)
		out, _, err := run(t, "", "analyze", "--compare", recordedRun, other)
		if err != nil || !strings.HasPrefix(out, want) || !strings.Contains(strings.Join(strings.Fields(out), " "), "unknown whether they differ") {
			t.Errorf("%s: %q, %v; want %q, unknown", locale, out, err, want)
		}
		for line := range strings.Lines(out) {
			if len([]rune(line)) > 81 || locale == "C" && strings.ContainsFunc(line, func(r rune) bool { return r > 126 }) {
				t.Errorf("%s: %q", locale, line)
			}
		}
	}
}

func TestSchedulesOfK6(t *testing.T) {
	path := filepath.Join(t.TempDir(), "schedule.yaml")
	for _, row := range []struct{ text, want string }{
		{"{kind: breakpoint, floorRps: 120, riseRps: 10, capRps: 260, stepSeconds: 5, stepDiscard: 1}", ""},
		{"{kind: ramp, stages: [{rps: 120, seconds: 75}]}", ""},
		{"", "scenario: null is not a mapping"},
		{"kind: search", "scenario.kind"},
		{"{kind: steady, flooorRps: 3}", "scenario.flooorRps"},
		{"{kind: steady, maxInFlight: -1}", "scenario.maxInFlight: -1 is below 0; set the script's maxVUs in " + path},
		{"kind: ramp", "gives 0 steps"},
		{"{kind: steady, floorRps: 5, stepSeconds: 1.5}", "gives 1 steps, not all"},
		{"{", path},
	} {
		if err := os.WriteFile(path, []byte(row.text), 0o644); err != nil {
			t.Fatal(err)
		}
		out, _, err := run(t, "", "analyze", "--json", "--scenario", path, "../../loadtest/k6/testdata/sat-known-1/samples.ndjson.gz")
		if row.want == "" && (err != nil || !strings.Contains(out, `"status"`)) || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%q: %v, want %q", row.text, err, row.want)
		}
	}
}
