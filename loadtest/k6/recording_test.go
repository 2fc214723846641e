package k6

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"lab/loadtest/analysis"
)

// tagged are the recorded samples with the tag rate that the write-ups' scripts
// give each request: of the step in which it began.
func (r recorded) tagged(t *testing.T) string {
	t.Helper()
	raw, err := io.ReadAll(r.samples(t))
	if err != nil {
		t.Fatal(err)
	}
	all, err := parseSamples(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	first, n := all.began(), 0
	var out strings.Builder
	for line := range strings.Lines(string(raw)) {
		if strings.Contains(line, `"http_req_duration","type":"Point"`) {
			step := math.Floor(all.requests[n].begin().Sub(first).Seconds() / r.seconds)
			rate := min(r.from+r.rise*step, r.to)
			line = strings.Replace(line, `"tags":{`, fmt.Sprintf(`"tags":{"rate":"%g",`, rate), 1)
			n++
		}
		out.WriteString(line)
	}
	if n != len(all.requests) {
		t.Fatalf("%d of %d requests tagged", n, len(all.requests))
	}
	return out.String()
}

// The tags tell the same steps as the schedule.
func TestTagsAndScheduleGiveTheSameSteps(t *testing.T) {
	for _, r := range runs[:3] {
		sc := r.scenario()
		byTag, err := ReadSamples(strings.NewReader(r.tagged(t)), nil)
		if err != nil {
			t.Fatal(err)
		}
		bySchedule, err := ReadSamples(r.samples(t), &sc)
		if err != nil {
			t.Fatal(err)
		}
		if len(byTag.Steps) != len(bySchedule.Steps) || len(byTag.Scenario.Stages) != len(byTag.Steps) {
			t.Fatalf("%s: %d steps by tag, %d by schedule", r.name, len(byTag.Steps), len(bySchedule.Steps))
		}
		for i, s := range byTag.Steps { // their windows differ by the discard
			if want := bySchedule.Steps[i]; s.OfferedRPS != want.OfferedRPS || math.Abs(s.CompletedRPS()/want.CompletedRPS()-1) > 0.05 {
				t.Errorf("%s: %g/s completed %.1f/s by tag, %.1f/s by schedule", r.name, s.OfferedRPS, s.CompletedRPS(), want.CompletedRPS())
			}
		}
		result := analysis.Result{Version: 1, RunID: r.name, Scenario: byTag.Scenario, Steps: byTag.Steps}
		if err := analysis.Validate(result); err != nil {
			t.Error(err)
		}
		if v := analysis.Analyze(result); v.Status != r.status || v.CeilingRPS < r.leastRPS || v.CeilingRPS > r.mostRPS {
			t.Errorf("%s: %s %g %v, want %s and %g to %g", r.name, v.Status, v.CeilingRPS, v.Invalid, r.status, r.leastRPS, r.mostRPS)
		}
	}
}

func TestTagsThatTellNoSteps(t *testing.T) {
	line := func(second float64, rate string) string {
		at := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(second * 1e9)).Format(time.RFC3339Nano)
		return fmt.Sprintf(`{"metric":"http_req_duration","type":"Point","data":{"time":%q,"value":1,"tags":{"status":"200","rate":%q}}}`, at, rate) + "\n"
	}
	var upAndDown, short strings.Builder
	for i := range 90 {
		upAndDown.WriteString(line(float64(i)/10, []string{"10", "20", "10"}[i/30]))
		short.WriteString(line(float64(i)/100, "100"))
	}
	for name, row := range map[string]struct{ text, want string }{
		"none":                {line(0, ""), "have no tag rate"},
		"lab.js' warm alone":  {line(0, "warm"), "have no tag rate"},
		"no rate":             {line(0, "-3"), "have no tag rate"},
		"a rate twice":        {upAndDown.String(), "lie within each other"},
		"shorter than a step": {short.String(), "less than 2 s"},
	} {
		if _, err := ReadSamples(strings.NewReader(row.text), nil); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", name, err, row.want)
		}
	}
}

// A run that a threshold ended early has no later steps: those are not "nothing
// completed", and the one it ended in is not all there.
func TestStepsAfterTheEndOfTheSamplesAreLeftOut(t *testing.T) {
	r := runs[0]
	var cut strings.Builder
	all, err := parseSamples(strings.NewReader(r.tagged(t)))
	if err != nil {
		t.Fatal(err)
	}
	end := all.began().Add(seconds(3.5 * r.seconds))
	for line := range strings.Lines(r.tagged(t)) {
		if _, after, ok := strings.Cut(line, `"time":"`); ok {
			at, err := time.Parse(time.RFC3339Nano, after[:strings.Index(after, `"`)])
			if err == nil && at.After(end) {
				continue
			}
		}
		cut.WriteString(line)
	}
	sc := r.scenario()
	got, err := ReadSamples(strings.NewReader(cut.String()), &sc)
	if err != nil || len(got.Steps) != 3 {
		t.Errorf("%d steps, %v; want the 3 whole ones", len(got.Steps), err)
	}
	sc.StepSeconds = 600
	if _, err := ReadSamples(strings.NewReader(cut.String()), &sc); err == nil || !strings.Contains(err.Error(), "first step") {
		t.Errorf("a schedule longer than the run: %v", err)
	}
}

// What lab.js writes says what its steps were.
func TestASummaryOfTheScriptIsReadByItself(t *testing.T) {
	r := runs[0]
	probes := analysis.Schedule(r.scenario())
	p, err := NewParams("http://x", r.scenario(), probes, "")
	if err != nil {
		t.Fatal(err)
	}
	p.Endpoints = []analysis.Endpoint{{Name: "root", Method: "GET", Path: "/", Weight: 1}}
	for i := range p.Steps {
		p.Steps[i].StartSeconds = r.seconds * float64(i)
	}
	begins, arrivals := r.arrivals(t, probes)
	raw, _ := replayed(t, "", p, begins, arrivals)
	summary, err := ParseSummary(raw)
	if err != nil {
		t.Fatal(err)
	}
	want, err := p.Read(summary, probes)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadSummary(raw)
	if err != nil || got.Unsound != "" || len(got.Steps) != len(want) || got.Scenario.MaxInFlight != p.MaxInFlight || got.Began.IsZero() {
		t.Fatalf("%d steps of %d, %d VUs, began %s, unsound %q, %v", len(got.Steps), len(want), got.Scenario.MaxInFlight, got.Began, got.Unsound, err)
	}
	for i, s := range got.Steps {
		if s.OfferedRPS != want[i].OfferedRPS || s.Completed != want[i].Completed || s.Dropped != want[i].Dropped || s.P95Ms != want[i].P95Ms || s.Seconds != want[i].Seconds {
			t.Errorf("step %d: %+v, want %+v", i, s, want[i].Step)
		}
	}
}

func TestASummaryWithoutRatesIsRefused(t *testing.T) {
	const whole = `{"metrics":{"http_reqs":{"values":{"count":28015}},"http_req_duration":{"values":{"p(95)":1200}}},"state":{"testRunDurationMs":300000}}`
	if _, err := ReadSummary([]byte(whole)); err == nil || !strings.Contains(err.Error(), "the mean of a whole run is no ceiling") {
		t.Error(err)
	}
}

// Counts by start are those of the summary, over about the step's length.
func TestASummaryCountedByStart(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("testdata", "sat-known-1", "handleSummary.json"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadSummary(raw)
	if err != nil || !strings.Contains(got.Unsound, "971 arrivals were dropped") || len(got.Steps) != 15 {
		t.Fatalf("%d steps, %q, %v", len(got.Steps), got.Unsound, err)
	}
	s := got.Steps[8]
	if rate := strconv.FormatFloat(s.OfferedRPS, 'f', -1, 64); rate != "200" || s.Arrivals != 1000 || s.Completed != 1000 || s.Seconds != 5 {
		t.Errorf("%+v", s)
	}
}
