// Package ledger keeps the rows that load tests measured: a file of JSON lines
// that is only ever appended to and outlives the lab.
package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"lab/atomicfile"
	"lab/loadtest/analysis"
)

// Row is one measurement with its provenance.
type Row struct {
	Time         string            `json:"time"` // RFC 3339, when the load began
	Stack        string            `json:"stack"`
	Step         string            `json:"step"` // the change's label
	RunID        string            `json:"runId"`
	InputsDigest string            `json:"inputsDigest"`
	Lab          string            `json:"lab,omitempty"` // version of the lab that measured it; of old rows ""
	Hosts        []Host            `json:"hosts"`
	Row          analysis.TableRow `json:"row"`
	Verdict      analysis.Verdict  `json:"verdict"`
	Scenario     analysis.Scenario `json:"scenario"`
	LoadSeconds  float64           `json:"loadSeconds"`
	Raw          string            `json:"raw,omitempty"` // file of the raw result, beside the ledger
}

// Measured is what a load test hands to the ledger: its row, and all that it
// measured.
type Measured struct {
	Row    Row             `json:"row"`
	Result json.RawMessage `json:"result"`
}

// Host is a machine's size at the time.
type Host struct {
	Name      string  `json:"name"`
	CPUs      float64 `json:"cpus"`
	MemoryMiB int     `json:"memoryMiB"`
}

// AppendMeasured keeps the raw result in a file of its own, beside the ledger in a
// folder with the stack's name, then appends the row that names it. The file is
// there before the row, and is never written twice: a run's figures do not change.
// Other figures under a known run id are an error; they are kept beside the first.
func AppendMeasured(path string, m Measured, log io.Writer) ([]Row, error) {
	if m.Row.RunID == "" || filepath.Base(m.Row.RunID) != m.Row.RunID || m.Row.RunID[0] == '.' {
		return nil, fmt.Errorf("append to the ledger: run id %q is no file's name", m.Row.RunID)
	}
	m.Row.Raw = filepath.Join(strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)), m.Row.RunID+".json")
	file := filepath.Join(filepath.Dir(path), m.Row.Raw)
	kept, err := os.ReadFile(file)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if err := keep(file, m.Result); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	case !sameResult(kept, m.Result):
		other := strings.TrimSuffix(file, ".json") + ".other.json"
		if err := keep(other, m.Result); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("append to the ledger: run %s has other figures in %s than what came now, which is in %s; look at each with lab analyze, and remove the wrong one", m.Row.RunID, file, other)
	}
	return Append(path, m.Row, log)
}

func keep(file string, result []byte) error {
	if err := atomicfile.Write(file, append(bytes.Clone(result), '\n'), 0o644); err != nil {
		return fmt.Errorf("keep the raw result: %w", err)
	}
	return nil
}

// sameResult compares what results say, not their text: another version of lab may
// write a key more.
func sameResult(a, b []byte) bool {
	var one, other analysis.Result
	if json.Unmarshal(a, &one) != nil || json.Unmarshal(b, &other) != nil {
		return bytes.Equal(bytes.TrimSpace(a), bytes.TrimSpace(b))
	}
	first, err := json.Marshal(one)
	second, otherErr := json.Marshal(other)
	return err == nil && otherErr == nil && bytes.Equal(first, second)
}

// Append adds a row unless one with its run id is there, and returns all rows.
// The line is on disk when it returns. A torn last line, of a computer that lost
// its power, is set aside and reported to log, never joined with the new one.
func Append(path string, row Row, log io.Writer) ([]Row, error) {
	if row.RunID == "" {
		return nil, errors.New("append to the ledger: the row has no run id")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	raw, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	rows, torn, err := parse(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, r := range rows {
		if r.RunID == row.RunID {
			return rows, nil
		}
	}
	line, err := json.Marshal(row)
	if err != nil {
		return nil, err
	}
	if len(torn) > 0 {
		if err := setAside(f, path, int64(len(raw)-len(torn)), torn, log); err != nil {
			return nil, err
		}
	}
	if _, err := f.Write(append(line, '\n')); err != nil {
		return nil, fmt.Errorf("append to %s: %w", path, err)
	}
	return append(rows, row), f.Sync()
}

// setAside moves a torn last line to the end of a file of such lines. It is on
// disk there before it is cut off here.
func setAside(f *os.File, path string, size int64, torn []byte, log io.Writer) error {
	aside := path + ".torn"
	kept, err := os.OpenFile(aside, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = kept.Write(append(bytes.Clone(torn), '\n'))
	if err := errors.Join(err, kept.Sync(), kept.Close()); err != nil {
		return fmt.Errorf("set a torn line aside: %w", err)
	}
	fmt.Fprintf(log, "the last line of %s was cut off; it is in %s\n", path, aside)
	return f.Truncate(size)
}

// Read reads all rows; a torn last line is left out.
func Read(path string) ([]Row, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("there is no ledger %s yet: make up measures the first row", path)
	}
	if err != nil {
		return nil, err
	}
	rows, _, err := parse(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return rows, nil
}

// parse reads the lines. What follows the last newline is torn.
func parse(raw []byte) (rows []Row, torn []byte, err error) {
	for n := 1; len(raw) > 0; n++ {
		line, rest, whole := bytes.Cut(raw, []byte("\n"))
		if !whole {
			return rows, raw, nil
		}
		var r Row
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, nil, fmt.Errorf("line %d: %w; correct it or move it away", n, err)
		}
		rows, raw = append(rows, r), rest
	}
	return rows, nil, nil
}

// Table is the rows in Markdown.
func Table(rows []Row) string {
	table := make([]analysis.TableRow, len(rows))
	for i, r := range rows {
		table[i] = r.Row
	}
	return analysis.Table(table)
}
