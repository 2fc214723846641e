package ledger

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"lab/loadtest/analysis"
)

// measured is a row as a run with this id gives it.
func measured(runID, scenario string) Row {
	return Row{
		Time: "2026-11-30T12:00:00Z", Stack: "test", Step: runID, RunID: runID, InputsDigest: runID,
		Row: analysis.TableRow{Step: runID, Ceiling: "260", Wall: "app CPU at 97%", SLOCapacity: "240", KneeP95: "30 ms", Valid: true, ScenarioDigest: scenario},
	}
}

func mustAppend(t *testing.T, path string, row Row, log io.Writer) []Row {
	t.Helper()
	rows, err := Append(path, row, log)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func ids(rows []Row) string {
	var names []string
	for _, r := range rows {
		names = append(names, r.RunID)
	}
	return strings.Join(names, " ")
}

func TestAppendKeepsTheOrderAndAddsARunOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results", "test.jsonl")
	for _, step := range []struct{ run, want string }{{"a", "a"}, {"b", "a b"}, {"a", "a b"}, {"b", "a b"}, {"c", "a b c"}} {
		if got := ids(mustAppend(t, path, measured(step.run, "s1"), io.Discard)); got != step.want {
			t.Errorf("append %s: rows %q, want %q", step.run, got, step.want)
		}
	}
	rows, err := Read(path)
	if err != nil || ids(rows) != "a b c" {
		t.Errorf("read back %q, %v", ids(rows), err)
	}
}

func TestATornLastLineIsSetAsideAndNeverLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.jsonl")
	mustAppend(t, path, measured("a", "s1"), io.Discard)
	torn := []string{`{"runId":"b","st`, `{"runId":"c"}`}
	for i, text := range torn { // a second one must not replace the first
		appendRaw(t, path, text)
		if rows, err := Read(path); err != nil || len(rows) != 1+i {
			t.Errorf("with a torn line: %d rows, %v; want %d", len(rows), err, 1+i)
		}
		var log bytes.Buffer
		mustAppend(t, path, measured(fmt.Sprintf("after %d", i), "s1"), &log)
		if !strings.Contains(log.String(), ".torn") {
			t.Errorf("the torn line was not reported: %q", log.String())
		}
	}
	rows, err := Read(path)
	if err != nil || ids(rows) != "a after 0 after 1" {
		t.Errorf("rows %q, %v", ids(rows), err)
	}
	kept, err := os.ReadFile(path + ".torn")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range torn {
		if !strings.Contains(string(kept), text) {
			t.Errorf("%q is lost; kept is %q", text, kept)
		}
	}
}

func TestAnUnreadableLineBeforeTheLastStopsWithItsNumber(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.jsonl")
	mustAppend(t, path, measured("a", "s1"), io.Discard)
	appendRaw(t, path, "edited by hand\n")
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Append(path, measured("b", "s1"), io.Discard); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("error %v, want one that names line 2", err)
	}
	if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
		t.Error("the ledger was changed")
	}
}

func TestConcurrentAppendsLoseNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.jsonl")
	const writers = 24
	var group sync.WaitGroup
	for i := range 2 * writers { // every run twice
		group.Go(func() {
			if _, err := Append(path, measured(fmt.Sprint("run", i%writers), "s1"), io.Discard); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	rows, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, r := range rows {
		seen[r.RunID]++
	}
	if len(rows) != writers || len(seen) != writers {
		t.Errorf("%d rows of %d runs, want %d of each", len(rows), len(seen), writers)
	}
}

func TestARowWithoutARunIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.jsonl")
	if _, err := Append(path, Row{}, io.Discard); err == nil {
		t.Error("no error")
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the ledger was made: %v", err)
	}
}

func TestTheTableMarksRowsOfAnotherScenario(t *testing.T) {
	same := Table([]Row{measured("a", "s1"), measured("b", "s1")})
	if strings.Contains(same, "don't compare") {
		t.Errorf("rows of one scenario are marked:\n%s", same)
	}
	mixed := Table([]Row{measured("a", "s1"), measured("b", "s2")})
	if !strings.Contains(mixed, "| a * |") || !strings.Contains(mixed, "| b |") || !strings.Contains(mixed, "don't compare") {
		t.Errorf("the row of another scenario is not marked:\n%s", mixed)
	}
}

func TestReadSaysWhatToDoWithoutALedger(t *testing.T) {
	if _, err := Read(filepath.Join(t.TempDir(), "none.jsonl")); err == nil || !strings.Contains(err.Error(), "make up") {
		t.Errorf("error %v", err)
	}
}

func appendRaw(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// The raw result is there before its row, is written once, and does not hinder
// the row when a user removed it.
func TestTheRawResultIsKeptBesideTheLedger(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results", "local.jsonl")
	keep := func(id, raw string) ([]Row, error) {
		return AppendMeasured(path, Measured{Row: measured(id, "s"), Result: []byte(raw)}, io.Discard)
	}
	const first = `{"version":1,"runId":"run1"}`
	for _, raw := range []string{first, first, `{ "runId": "run1", "version": 1, "ofAnotherVersion": 3 }`} {
		rows, err := keep("run1", raw)
		if err != nil || ids(rows) != "run1" || rows[0].Raw != "local/run1.json" {
			t.Fatalf("rows %+v, %v", rows, err)
		}
		got, err := os.ReadFile(filepath.Join(filepath.Dir(path), rows[0].Raw))
		if err != nil || strings.TrimSpace(string(got)) != first {
			t.Errorf("the raw result is %q, %v; want %q", got, err, first)
		}
	}
	if err := os.RemoveAll(filepath.Join(filepath.Dir(path), "local")); err != nil {
		t.Fatal(err)
	}
	if rows, err := keep("run2", `{}`); err != nil || ids(rows) != "run1 run2" {
		t.Errorf("after the folder was removed: %s, %v", ids(rows), err)
	}
	for _, id := range []string{"", "../run", ".run", "a/b"} {
		if _, err := keep(id, `{}`); err == nil {
			t.Errorf("run id %q was taken as a file's name", id)
		}
	}
}

// Other figures of a known run were dropped without a word.
func TestOtherFiguresOfAKnownRunAreRefusedAndKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "local.jsonl")
	for i, raw := range []string{`{"version":1,"loadSeconds":30}`, `{"version":1,"loadSeconds":31}`, `no JSON`} {
		rows, err := AppendMeasured(path, Measured{Row: measured("run1", "s"), Result: []byte(raw)}, io.Discard)
		if i == 0 {
			if err != nil || len(rows) != 1 {
				t.Fatalf("%d rows, %v", len(rows), err)
			}
			continue
		}
		first, other := filepath.Join(filepath.Dir(path), "local/run1.json"), filepath.Join(filepath.Dir(path), "local/run1.other.json")
		if err == nil || !strings.Contains(err.Error(), first) || !strings.Contains(err.Error(), other) {
			t.Errorf("%v, want both files named", err)
		}
		if got, _ := os.ReadFile(other); strings.TrimSpace(string(got)) != raw {
			t.Errorf("kept beside the first is %q, want %q", got, raw)
		}
		if got, _ := os.ReadFile(first); !strings.Contains(string(got), `"loadSeconds":30`) {
			t.Errorf("the first became %q", got)
		}
	}
}
