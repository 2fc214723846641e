package results

import (
	"crypto/sha256"
	"fmt"
	"io"
	"time"

	"lab/loadtest/analysis"
	"lab/loadtest/k6"
)

// fromSamples reads k6's samples, one line at a time: they take 3.8 kB a request.
func fromSamples(text io.Reader, schedule *analysis.Scenario) (analysis.Result, error) {
	sum := sha256.New()
	recording, err := k6.ReadSamples(io.TeeReader(text, sum), schedule)
	if err != nil {
		return analysis.Result{}, err
	}
	return asResult(recording, sum.Sum(nil))
}

func fromSummary(raw []byte) (analysis.Result, error) {
	recording, err := k6.ReadSummary(raw)
	if err != nil {
		return analysis.Result{}, err
	}
	sum := sha256.Sum256(raw)
	return asResult(recording, sum[:])
}

// asResult makes a result of what k6 recorded. Its run id is the file's digest:
// k6 gives a run no name.
func asResult(r k6.Recording, sum []byte) (analysis.Result, error) {
	result := analysis.Result{
		Version: 1, RunID: fmt.Sprintf("k6-%x", sum)[:19], Engine: analysis.EngineK6,
		Scenario: r.Scenario, Steps: r.Steps, Unsound: r.Unsound,
	}
	if !r.Began.IsZero() {
		result.Started = r.Began.UTC().Format(time.RFC3339)
	}
	for _, p := range analysis.Schedule(r.Scenario)[:len(r.Steps)] {
		result.LoadSeconds += p.Seconds
	}
	return result, analysis.Validate(result)
}
