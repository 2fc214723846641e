package k6

import (
	"encoding/json"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lab/loadtest/analysis"
)

// k6's modules as far as the scripts use them.
var modules = map[string]string{
	"package.json": `{"name":"k6","type":"module","exports":{"./http":"./http.js","./metrics":"./metrics.js","./execution":"./execution.js"}}`,
	"http.js": `function ask(method, url, body, settings) {
  K.add('http_reqs', 'counter', 1, K.vu.metrics.tags);
  K.add('http_req_duration', 'trend', K.answer.response.timings.duration, K.vu.metrics.tags);
  (K.asked ||= []).push([method, url, body, settings]);
  K.now = K.answer.end;
  return K.answer.response;
}
export default { request: ask, get: (url) => ask('GET', url) };`,
	"metrics.js": `class Metric {
  constructor(name) { this.name = name; }
  add(value, tags) { K.add(this.name, this.type, value, { ...K.vu.metrics.tags, ...tags }); }
}
export class Counter extends Metric { type = 'counter'; }
export class Gauge extends Metric { type = 'gauge'; }
export class Trend extends Metric { type = 'trend'; }`,
	"execution.js": `export default { get scenario() { return K.scenario; }, get vu() { return K.vu; } };`,
}

type arrival struct {
	Step    int     `json:"step"`
	Begin   float64 `json:"begin"` // Unix time, ms
	Ms      float64 `json:"ms"`
	Status  int     `json:"status"`
	Code    int     `json:"code"`
	Dropped bool    `json:"dropped"`
}

// replay runs lab.js over arrivals and reads what it writes.
func replay(t *testing.T, script string, p Params, probes []analysis.Probe, begins []float64, arrivals []arrival) ([]Measured, map[string]any, error) {
	t.Helper()
	raw, options := replayed(t, script, p, begins, arrivals)
	summary, err := ParseSummary(raw)
	if err != nil {
		t.Fatal(err)
	}
	steps, err := p.Read(summary, probes)
	return steps, options, err
}

// replayed is the summary that lab.js writes, and its options.
func replayed(t *testing.T, script string, p Params, begins []float64, arrivals []arrival) ([]byte, map[string]any) {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not here: the script is run by it")
	}
	dir := t.TempDir()
	p.Summary = filepath.Join(dir, "summary.json")
	files := map[string]string{"package.json": `{"type":"module"}`}
	for name, text := range modules {
		files["node_modules/k6/"+name] = text
	}
	for _, name := range []string{"lab.js", "scenario.js"} {
		text, err := scripts.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(text)
	}
	if script != "" {
		files["own.js"] = script
	}
	for name, value := range map[string]any{
		"params.json": p, "load.json": map[string]any{"arrivals": arrivals, "begins": begins, "vus": 300},
	} {
		raw, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(raw)
	}
	if err := os.MkdirAll(filepath.Join(dir, "node_modules/k6"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	name := "scenario.js"
	if script != "" {
		name = "own.js"
	}
	cmd := exec.Command(node, "testdata/replay.mjs", dir, name)
	cmd.Stderr = &strings.Builder{}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, cmd.Stderr)
	}
	var options map[string]any
	if err := json.Unmarshal(out, &options); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(p.Summary)
	if err != nil {
		t.Fatal(err)
	}
	return raw, options
}

// arrivals are those of a recorded run, each in the step that began it.
func (r recorded) arrivals(t *testing.T, schedule []analysis.Probe) (begins []float64, all []arrival) {
	t.Helper()
	samples := r.samples(t)
	ms := func(t time.Time) float64 { return float64(t.UnixNano()) / 1e6 }
	for d := json.NewDecoder(samples); ; {
		var point sample
		if err := d.Decode(&point); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		switch end := ms(point.Data.Time); point.Metric {
		case "http_req_duration":
			all = append(all, arrival{Begin: end - point.Data.Value, Ms: point.Data.Value, Status: 200})
		case "dropped_iterations":
			all = append(all, arrival{Begin: end, Dropped: true})
		}
	}
	slices.SortStableFunc(all, func(a, b arrival) int { return int(math.Copysign(1, a.Begin-b.Begin)) })
	at := all[0].Begin
	for _, probe := range schedule {
		begins = append(begins, at)
		at += 1000 * probe.Seconds
	}
	for i := range all {
		for all[i].Step+1 < len(begins) && all[i].Begin >= begins[all[i].Step+1] {
			all[i].Step++
		}
	}
	return begins, all
}

// lab.js, run over what k6 recorded, measures what an independent program read
// from the recording, whole milliseconds of its clock apart.
func TestTheScriptMeasuresWhatWasRecorded(t *testing.T) {
	for _, r := range runs[:3] {
		probes := analysis.Schedule(r.scenario())
		p, err := NewParams("http://x", r.scenario(), probes, "")
		if err != nil {
			t.Fatal(err)
		}
		p.Endpoints = []analysis.Endpoint{{Name: "root", Method: "GET", Path: "/", Weight: 1}}
		for i := range p.Steps { // the recorded steps follow each other at once
			p.Steps[i].StartSeconds = r.seconds * float64(i)
		}
		begins, arrivals := r.arrivals(t, probes)
		steps, _, err := replay(t, "", p, probes, begins, arrivals)
		if err != nil {
			t.Fatal(err)
		}
		direct := r.steps(t)
		result := analysis.Result{Version: 1, RunID: r.name, Engine: "k6 v2.2.0", Scenario: r.scenario()}
		for i, row := range r.table(t) {
			s := steps[i].Step
			for column, got := range map[string]float64{
				"started_rps": float64(s.Arrivals-s.Dropped) / s.Seconds, "completed_rps": s.CompletedRPS(), "dropped_rps": float64(s.Dropped) / s.Seconds,
			} {
				if want := row[column]; math.Abs(got-want) > 1.5 {
					t.Errorf("%s at %g/s: %s %.2f, want %.1f", r.name, s.OfferedRPS, column, got, want)
				}
			}
			for column, got := range map[string]float64{"p50_ms": s.P50Ms, "p95_ms": s.P95Ms, "mean_ms": s.MeanMs} {
				if want := row[column]; math.Abs(got-want) > 1.5+0.02*want {
					t.Errorf("%s at %g/s: %s %.2f, want %.1f", r.name, s.OfferedRPS, column, got, want)
				}
			}
			if got, want := s.InFlightMean, direct[i].InFlightMean; math.Abs(got-want) > 0.5+0.02*want {
				t.Errorf("%s at %g/s: %.2f in flight, want %.2f", r.name, s.OfferedRPS, got, want)
			}
			result.Steps = append(result.Steps, s)
		}
		if err := analysis.Validate(result); err != nil {
			t.Error(err)
		}
		v := analysis.Analyze(result)
		t.Logf("%s: %s %s", r.name, v.Status, v.Ceiling)
		if v.Status != r.status || v.CeilingRPS < r.leastRPS || v.CeilingRPS > r.mostRPS {
			t.Errorf("%s: %s %g (%v), want %s and %g to %g", r.name, v.Status, v.CeilingRPS, v.Invalid, r.status, r.leastRPS, r.mostRPS)
		}
	}
}

func TestTheScriptTellsFailuresApart(t *testing.T) {
	var arrivals []arrival
	want := map[string]int64{}
	for i, row := range []struct {
		status, code int
		kind         string
	}{
		{200, 0, ""}, {302, 0, ""}, {404, 1404, "status-4xx"}, {503, 1503, "status-5xx"}, {0, 1050, "timeout"}, {0, 1101, "dns"},
		{0, 1212, "dial"}, {0, 1220, "reset"}, {0, 1310, "tls"}, {0, 1000, "protocol"}, {0, 1650, "protocol"},
	} {
		arrivals = append(arrivals, arrival{Begin: 2000 + float64(i), Ms: 5, Status: row.status, Code: row.code})
		if row.kind != "" {
			want[row.kind]++
		}
	}
	// discarded, and answered after the window's end: credited to no one
	arrivals = append(arrivals, arrival{Begin: 500, Ms: 5, Status: 200}, arrival{Begin: 2990, Ms: 50, Status: 200})
	probes := []analysis.Probe{{Phase: "ramp", OfferedRPS: 12, Seconds: 2, DiscardSeconds: 1}}
	p, err := NewParams("http://x", analysis.DefaultScenario(), probes, "")
	if err != nil {
		t.Fatal(err)
	}
	p.Endpoints = []analysis.Endpoint{{Name: "root", Method: "POST", Path: "/", Body: "x", Weight: 1}}
	steps, _, err := replay(t, "", p, probes, []float64{1000}, arrivals)
	if err != nil {
		t.Fatal(err)
	}
	s := steps[0].Step
	if s.Completed != 2 || s.Failed != 9 || s.Arrivals != 12 || len(s.Errors) != len(want) {
		t.Errorf("%+v", s)
	}
	for kind, n := range want {
		if s.Errors[kind] != n {
			t.Errorf("%s: %d, want %d", kind, s.Errors[kind], n)
		}
	}
}

func TestTheOptionsOfTheScript(t *testing.T) {
	probes := []analysis.Probe{{OfferedRPS: 100, Seconds: 15, DiscardSeconds: 4}, {OfferedRPS: 12.5, Seconds: 60, DiscardSeconds: 4}}
	sc := analysis.DefaultScenario()
	sc.KeepAlive, sc.MaxInFlight, sc.TimeoutMs = false, 250, 2000
	p, err := NewParams("http://x", sc, probes, "")
	if err != nil {
		t.Fatal(err)
	}
	const own = `import http from 'k6/http';
import { measured, params } from './lab.js';
export { options, handleSummary } from './lab.js';
export default measured(() => http.get(params.target + '/own'));`
	steps, options, err := replay(t, own, p, probes, []float64{0, 20_000}, []arrival{
		{Step: 0, Begin: 5000, Ms: 3, Status: 200}, {Step: 1, Begin: 30_000, Ms: 3, Status: 200},
	})
	if err == nil || !strings.Contains(err.Error(), "nothing ran at 100") { // began at 0
		t.Errorf("%v, steps %v", err, steps)
	}
	got, err := json.Marshal(options["scenarios"])
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"step0":{"executor":"ramping-arrival-rate","gracefulStop":"3000ms","maxVUs":250,"preAllocatedVUs":250,"stages":[{"duration":"15000ms","target":100}],"startRate":100,"startTime":"0s","timeUnit":"1s"},` +
		`"step1":{"executor":"ramping-arrival-rate","gracefulStop":"3000ms","maxVUs":250,"preAllocatedVUs":250,"stages":[{"duration":"60000ms","target":12500}],"startRate":12500,"startTime":"18s","timeUnit":"1000s"}}`
	if string(got) != want {
		t.Errorf("scenarios\n%s, want\n%s", got, want)
	}
	if options["noConnectionReuse"] != true || options["discardResponseBodies"] != true {
		t.Errorf("options %v", options)
	}
}
