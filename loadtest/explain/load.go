package explain

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"lab/loadtest/analysis"
	"lab/loadtest/ledger"
)

// Named is a result with the name that its file gives it.
type Named struct {
	Name   string
	Result analysis.Result
}

// Load reads the results of a file: a run's raw result, the stack's output
// "result", or a ledger, whose rows lead to their raw results.
func Load(path string) ([]Named, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w; raw results are in results/STACK/, one a run", err)
	}
	if strings.HasSuffix(path, ".jsonl") {
		return loadLedger(path)
	}
	r, err := parse(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; want a run's raw result (results/STACK/RUN.json), a ledger (results/STACK.jsonl) or the output of pulumi stack output result --json", path, err)
	}
	return []Named{{strings.TrimSuffix(filepath.Base(path), ".json"), r}}, nil
}

// parse reads a result and checks that it is one. k6's own summaries have another
// shape, and are told by it.
func parse(raw []byte) (analysis.Result, error) {
	var r analysis.Result
	var shape map[string]json.RawMessage
	if err := json.Unmarshal(raw, &shape); err != nil {
		return r, fmt.Errorf("no JSON object: %w", err)
	}
	if shape["metrics"] != nil && shape["steps"] == nil {
		return r, errors.New("a summary of k6, which can't be read yet")
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return r, err
	}
	return r, analysis.Validate(r)
}

// loadLedger reads the raw results of a ledger's rows. A row whose file is gone is
// left out, unless all are.
func loadLedger(path string) ([]Named, error) {
	rows, err := ledger.Read(path)
	if err != nil {
		return nil, err
	}
	var all []Named
	for _, row := range rows {
		file := filepath.Join(filepath.Dir(path), row.Raw)
		if row.Raw == "" {
			continue
		}
		raw, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		r, err := parse(raw)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, Named{row.Step, r})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: none of its %d rows has its raw result beside it", path, len(rows))
	}
	return all, nil
}
