// Package results reads the files that hold what was measured: lab's own raw
// results, ledgers, and what k6 writes.
package results

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lab/loadtest/analysis"
	"lab/loadtest/ledger"
)

// Named is a result with the name that its file gives it.
type Named struct {
	Name   string
	File   string
	Result analysis.Result
}

// Loaded is what could be read, and which rows of ledgers could not: a sentence
// each.
type Loaded struct {
	Results []Named
	Missing []string
}

// Load reads files in their order. schedule is what samples of k6 were made by,
// nil where their requests are tagged with their rate. One run id with two
// contents is an error: one of the two is not what was measured.
func Load(paths []string, schedule *analysis.Scenario) (Loaded, error) {
	var all Loaded
	for _, path := range paths {
		one, err := load(path, schedule)
		if err != nil {
			return Loaded{}, err
		}
		all.Results = append(all.Results, one.Results...)
		all.Missing = append(all.Missing, one.Missing...)
	}
	return all, contradicting(all.Results)
}

func contradicting(all []Named) error {
	type content struct{ file, text string }
	seen := map[string]content{}
	for _, n := range all {
		raw, err := json.Marshal(n.Result)
		if err != nil {
			return fmt.Errorf("%s: %w", n.File, err)
		}
		before, known := seen[n.Result.RunID]
		if known && before.text != string(raw) {
			return fmt.Errorf("%s and %s both hold run %s, with different content; one of them is not what was measured: give each alone, and remove the wrong one", before.file, n.File, n.Result.RunID)
		}
		seen[n.Result.RunID] = content{n.File, string(raw)}
	}
	return nil
}

// The shapes of a file, by its beginning.
const (
	shapeObject  = "an object"
	shapeLedger  = "a ledger"
	shapeSamples = "samples of k6"
	shapeCSV     = "CSV of k6"
	shapeOther   = "something else"
)

func load(path string, schedule *analysis.Scenario) (Loaded, error) {
	f, err := os.Open(path)
	if err != nil {
		return Loaded{}, fmt.Errorf("%w; raw results are in results/STACK/, one a run", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return Loaded{}, fmt.Errorf("%s is a folder; give its files, such as %s", path, filepath.Join(path, "*.json"))
	}
	text, err := plain(f)
	if err != nil {
		return Loaded{}, fmt.Errorf("%s: %w", path, err)
	}
	beginning, err := text.Peek(4096)
	if err != nil && !errors.Is(err, io.EOF) {
		return Loaded{}, fmt.Errorf("read %s: %w", path, err)
	}
	base := filepath.Base(path)
	name, _, _ := strings.Cut(base, ".")
	one := func(r analysis.Result, err error) (Loaded, error) {
		if err != nil {
			return Loaded{}, fmt.Errorf("%s: %w", path, err)
		}
		return Loaded{Results: []Named{{name, path, r}}}, nil
	}
	switch shape(base, beginning) {
	case shapeLedger:
		return loadLedger(path)
	case shapeSamples:
		return one(fromSamples(text, schedule))
	case shapeCSV:
		return one(analysis.Result{}, errors.New("k6's CSV (--out csv) can't be read; write k6 run --out json=FILE instead"))
	case shapeObject:
		raw, err := io.ReadAll(text)
		if err != nil {
			return Loaded{}, fmt.Errorf("read %s: %w", path, err)
		}
		return one(fromObject(raw))
	}
	return one(analysis.Result{}, fmt.Errorf("no JSON object, it begins with %.20q; %s", beginning, want))
}

const want = "want a run's raw result (results/STACK/RUN.json), a ledger (results/STACK.jsonl), the output of pulumi stack output result --json, k6's samples (k6 run --out json=FILE) or the data of k6's handleSummary"

// plain is the file's text: k6 compresses samples where their name ends in .gz.
func plain(f io.Reader) (*bufio.Reader, error) {
	text := bufio.NewReaderSize(f, 1<<16)
	if magic, _ := text.Peek(2); !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return text, nil
	}
	unzipped, err := gzip.NewReader(text)
	if err != nil {
		return nil, err
	}
	return bufio.NewReaderSize(unzipped, 1<<16), nil
}

// shape tells a file by its first line, since k6's samples, a ledger and an object
// may all be named .json. The beginning of a line may be all of it there is.
func shape(base string, beginning []byte) string {
	line, _, whole := bytes.Cut(bytes.TrimLeft(beginning, " \t\r\n"), []byte("\n"))
	var first struct {
		Type   string `json:"type"`
		Metric string `json:"metric"`
	}
	switch {
	case whole && json.Unmarshal(line, &first) == nil && first.Metric != "" && (first.Type == "Metric" || first.Type == "Point"):
		return shapeSamples
	case strings.HasSuffix(base, ".jsonl"):
		return shapeLedger
	case bytes.HasPrefix(line, []byte("{")):
		return shapeObject
	case bytes.HasPrefix(line, []byte("metric_name,timestamp,")):
		return shapeCSV
	}
	return shapeOther
}

// fromObject reads a result, or a summary of k6.
func fromObject(raw []byte) (analysis.Result, error) {
	var r analysis.Result
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(raw, &keys); err != nil {
		return r, fmt.Errorf("no JSON object: %w; %s", err, want)
	}
	switch {
	case keys["steps"] != nil || keys["runId"] != nil:
	case keys["metrics"] != nil || keys["results"] != nil:
		return fromSummary(raw)
	default:
		return r, fmt.Errorf("a JSON object with the keys %s is no result; %s", few(keys), want)
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return r, err
	}
	return r, analysis.Validate(r)
}

// few are the first of an object's keys.
func few(keys map[string]json.RawMessage) string {
	var names []string
	for name := range keys {
		names = append(names, name)
	}
	slices.Sort(names)
	if len(names) > 5 {
		names = append(names[:5], "…")
	}
	return "[" + strings.Join(names, " ") + "]"
}

// loadLedger reads the raw results of a ledger's rows.
func loadLedger(path string) (Loaded, error) {
	rows, err := ledger.Read(path)
	if err != nil {
		return Loaded{}, err
	}
	var all Loaded
	for i, row := range rows {
		file := filepath.Join(filepath.Dir(path), row.Raw)
		missing := func(why string) {
			all.Missing = append(all.Missing, fmt.Sprintf("%s row %d (%s, run %s): %s", path, i+1, row.Step, row.RunID, why))
		}
		if row.Raw == "" {
			missing("it names no raw result")
			continue
		}
		raw, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			missing(file + " is not there")
			continue
		}
		if err != nil {
			return Loaded{}, err
		}
		r, err := fromObject(raw)
		if err != nil {
			return Loaded{}, fmt.Errorf("%s: %w", file, err)
		}
		all.Results = append(all.Results, Named{row.Step, file, r})
	}
	if len(all.Results) == 0 {
		return Loaded{}, fmt.Errorf("%s: none of its %d rows has its raw result beside it", path, len(rows))
	}
	return all, nil
}
