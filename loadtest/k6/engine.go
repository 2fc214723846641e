// Package k6 measures with k6, an external program: one process offers one step
// through a script that lab gives it, and its summary is read as the step. Nothing
// of k6 is imported or bundled.
package k6

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"lab/loadtest/analysis"
)

//go:embed lab.js scenario.js
var scripts embed.FS

// Patience is how long a step may go on at most, beyond its length and one request's
// timeout: VUs to start, a summary to write.
const Patience = 60 * time.Second

const (
	maxStderr = 64 << 10 // bytes kept; k6 writes a line for each failed request
)

// Engine offers the steps of one scenario, one process each: every step then
// starts from an idle generator and target, as with the built-in engine, and the
// search can choose each rate by what the one before gave.
type Engine struct {
	binary  string
	dir     string // scripts, parameters and summaries
	target  string
	sc      analysis.Scenario
	version string
	script  string
}

// New prepares an engine in a folder of its own. binary is k6; version the pinned
// one, "" for any. script is the text of a user's own script, "" for the scenario's
// endpoints.
func New(ctx context.Context, binary, version, script, dir, target string, sc analysis.Scenario) (*Engine, error) {
	e := &Engine{binary: binary, dir: dir, target: strings.TrimSuffix(target, "/"), sc: sc, script: "scenario.js"}
	out, err := exec.CommandContext(ctx, binary, "version").Output()
	if err != nil {
		return nil, fmt.Errorf("ask %s for its version: %w", binary, err)
	}
	fields := strings.Fields(string(out))
	if len(fields) < 2 || fields[0] != "k6" {
		return nil, fmt.Errorf("%s is not k6: its version is %.60q", binary, out)
	}
	e.version = fields[1]
	if version != "" && strings.TrimPrefix(e.version, "v") != strings.TrimPrefix(version, "v") {
		return nil, fmt.Errorf("%s is k6 %s, pinned is %s", binary, e.version, version)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	for _, name := range []string{"lab.js", "scenario.js"} {
		text, err := scripts.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return nil, err
		}
	}
	if script == "" {
		return e, nil
	}
	e.script = "own.js"
	if err := CheckScript(script); err != nil {
		return nil, err
	}
	return e, os.WriteFile(filepath.Join(dir, e.script), []byte(script), 0o600)
}

// CheckScript says what a user's own script lacks, as far as its text shows it.
// What it does not show, the first step's summary does.
func CheckScript(text string) error {
	for _, part := range []struct{ word, add string }{
		{"./lab.js", "import { measured } from './lab.js';"},
		{"measured(", "export default measured(() => http.get(...));"},
		{"handleSummary", "export { options, handleSummary } from './lab.js';"},
		{"options", "export { options, handleSummary } from './lab.js';"},
	} {
		if !strings.Contains(text, part.word) {
			return fmt.Errorf("the k6 script has no %q; add %s", part.word, part.add)
		}
	}
	return nil
}

// Name is the engine with its version, as a result records it.
func (e *Engine) Name() string { return "k6 " + e.version }

// Step offers one constant rate and measures it. began is when its first arrival
// was due, for samples of hosts to be cut to the same window.
func (e *Engine) Step(ctx context.Context, probe analysis.Probe) (step analysis.Step, began time.Time, err error) {
	summary := filepath.Join(e.dir, "summary.json")
	if err := os.Remove(summary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return step, began, err // an older one would be taken for this step's
	}
	params, err := NewParams(e.target, e.sc, []analysis.Probe{probe}, summary)
	if err != nil {
		return step, began, err
	}
	if err := e.run(ctx, params, probe); err != nil {
		return step, began, err
	}
	raw, err := os.ReadFile(summary)
	if errors.Is(err, fs.ErrNotExist) {
		return step, began, errors.New("k6 ended with status 0 and wrote no summary: the script does not export handleSummary of lab.js, or its folder can't be written")
	} else if err != nil {
		return step, began, err
	}
	parsed, err := ParseSummary(raw)
	if err != nil {
		return step, began, err
	}
	measured, err := params.Read(parsed, []analysis.Probe{probe})
	if err != nil {
		return step, began, err
	}
	return measured[0].Step, measured[0].Began, nil
}

// run is one k6 process. Its environment holds what k6 needs and no more.
func (e *Engine) run(ctx context.Context, params Params, probe analysis.Probe) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	file := filepath.Join(e.dir, "params.json")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		return err
	}
	limit := seconds(probe.Seconds+params.TimeoutMs/1000) + Patience
	limited, stop := context.WithTimeout(ctx, limit)
	defer stop()
	cmd := exec.CommandContext(limited, e.binary, "run", "-q", "--no-color", "-e", "LAB_PARAMS="+file, e.script)
	cmd.Dir = e.dir
	// Over TLS k6 would take HTTP/2 where it is offered, and the scenario says 1.1.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + e.dir, "K6_NO_USAGE_REPORT=true", "GODEBUG=http2client=0"}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	stderr := &head{}
	cmd.Stderr = stderr
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("k6 was told to stop: %w", ctx.Err())
	case limited.Err() != nil:
		return fmt.Errorf("k6 did not end within %s", limit.Round(time.Second))
	case errors.As(err, &exit):
		return exitError(exit.ExitCode(), stderr.String())
	}
	return err
}

// head keeps the first of what is written: the cause comes before its effects.
type head struct{ bytes.Buffer }

func (h *head) Write(p []byte) (int, error) {
	if room := maxStderr - h.Len(); room > 0 {
		h.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
