package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// TestMain lets the test's binary be the processes that bench starts of itself.
func TestMain(m *testing.M) {
	if isChild(os.Args[1:]) {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestARoundMeasuresEveryGeneratorInEveryCase(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.json")
	t.Setenv("PATH", withoutK6(t))
	var stdout strings.Builder
	o := options{rounds: 1, seconds: 1, json: file, reportOnly: true}
	if err := benchmark(t.Context(), o, "", &stdout, t.Output()); err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(read(t, file), &r); err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		caseSlow: {builtin, vegeta, hey}, caseFast: {builtin, vegeta, hey}, caseClosed: {wrk, builtin, vegeta, hey},
		caseFrozen: {builtin, vegeta, hey, wrk}, caseKnown: {builtin},
	}
	for c, generators := range want {
		for _, name := range generators {
			measured := values(r.Rows, c, name, func(r row) float64 { return float64(r.SeenRequests) })
			if len(measured) != 1 || measured[0] == 0 {
				t.Errorf("%s, %s: the target saw %v requests, want a count", c, name, measured)
			}
		}
	}
	if len(r.Rows) != 15 {
		t.Errorf("%d measurements, want 15", len(r.Rows))
	}
	for _, row := range r.Rows {
		plausible(t, row)
	}
	for _, head := range []string{"1,000 req/s", "5,000 req/s", "as fast as 50 connections go", "frozen for 0.2 s of 1 s: p95 must be 150 ms", "20 requests of 20 ms at a time", "bar of the built-in engine", "first look"} {
		if !strings.Contains(stdout.String(), head) {
			t.Errorf("the report lacks %q:\n%s", head, &stdout)
		}
	}
}

// plausible checks what holds however busy the machine is.
func plausible(t *testing.T, r row) {
	t.Helper()
	if r.CPUSeconds <= 0 || r.RSSMiB < 1 || r.SeenRPS <= 0 {
		t.Errorf("%s, %s: %.3f s of CPU, %.1f MiB, %.1f req/s seen", r.Case, r.Generator, r.CPUSeconds, r.RSSMiB, r.SeenRPS)
	}
	if r.Case == caseKnown {
		if r.Ceiling.Status == "" || r.CapacityRPS <= 0 || r.CapacityRPS > places/held.Seconds() {
			t.Errorf("search: %+v of %.1f req/s", r.Ceiling, r.CapacityRPS)
		}
		return
	}
	if r.Answered > r.SeenRequests || r.P50Ms <= 0 || r.P50Ms > r.P95Ms || r.P95Ms > r.P99Ms {
		t.Errorf("%s, %s: %d answered of %d seen, p50 %.3f, p95 %.3f, p99 %.3f ms",
			r.Case, r.Generator, r.Answered, r.SeenRequests, r.P50Ms, r.P95Ms, r.P99Ms)
	}
	if tells := r.Generator == builtin || r.Generator == vegeta && r.Case != caseClosed; tells != (r.LagP50Ms >= 0) {
		t.Errorf("%s, %s: lag p50 is %g ms", r.Case, r.Generator, r.LagP50Ms)
	}
	if r.Case == caseFrozen && r.Generator == builtin && r.P95Ms < frozenTheoryMs(r.FreezeSeconds)/2 {
		t.Errorf("p95 of the frozen target is %.1f ms: the stall was not charged to those who waited", r.P95Ms)
	}
}

// failing is a server whose every fourth answer is a 503, and its count of requests.
func failing(t *testing.T) (string, *atomic.Int64) {
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1)%4 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write(make([]byte, replyBytes))
	}))
	t.Cleanup(s.Close)
	return s.URL, &n
}

func TestParsersTellAnswersFromFailuresInRealOutput(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	generators, err := newGenerators(self, t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range generators {
		t.Run(g.name, func(t *testing.T) {
			url, seen := failing(t)
			out, _, err := run(t.Context(), g.command(url+"/", load{rateRPS: 200, seconds: 1, connections: 10}))
			if err != nil {
				t.Fatal(err)
			}
			told, err := g.parse(out)
			if err != nil {
				t.Fatal(err)
			}
			if all := told.Answered + told.Failed; told.Failed == 0 || all > seen.Load() || all < seen.Load()-10-told.Dropped {
				t.Errorf("%d answered, %d failed; the target saw %d", told.Answered, told.Failed, seen.Load())
			}
			// What was in flight at the end is counted by neither, and may have been either.
			if off := 3*told.Failed - told.Answered; off < -40 || off > 40 {
				t.Errorf("%d answered, %d failed: want three to one", told.Answered, told.Failed)
			}
		})
	}
}

func TestHeyIsUnderstoodWhenNobodyAnswers(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	out, _, err := run(t.Context(), []string{hey, "-n", "20", "-c", "2", s.URL})
	if err != nil {
		t.Fatal(err)
	}
	if told, err := parseHey(out); err != nil || told.Answered != 0 || told.Failed != 20 {
		t.Errorf("%+v, %v: want 20 failed", told, err)
	}
}

func TestAGeneratorThatEndsBadlyIsAnErrorWithItsWords(t *testing.T) {
	_, _, err := run(t.Context(), []string{wrk, "--no-such-option"})
	if err == nil || !strings.Contains(err.Error(), "no-such-option") {
		t.Errorf("error %v", err)
	}
}

func TestAnInterruptedRunLeavesNoProcess(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	started, progress := io.Pipe()
	result := make(chan error, 1)
	go func() {
		result <- benchmark(ctx, options{rounds: 1, seconds: 1}, "", io.Discard, progress)
		_ = progress.Close()
	}()
	if _, err := started.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	cancel()
	go func() { _, _ = io.Copy(io.Discard, started) }()
	if err := <-result; err == nil {
		t.Error("an interrupted run must not report")
	}
	if left := children(t); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
}

// children are this process's own that live.
func children(t *testing.T) []string {
	t.Helper()
	var all []string
	files, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		all = append(all, strings.Fields(string(read(t, file)))...)
	}
	return all
}

func TestFrozenTargetAnswersAgain(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s, err := startTarget(self)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.freeze(ctx, 0, seconds(3600)) }()
	for state(t, s.cmd.Process.Pid) != "T" {
		select {
		case err := <-done:
			t.Fatal(err)
		default:
		}
	}
	cancel()
	if err := <-done; err == nil {
		t.Error("want the context's error")
	}
	if _, err := s.seen(); err != nil {
		t.Error(err)
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
}

// state is a process's, as in ps: T when it is stopped.
func state(t *testing.T, pid int) string {
	t.Helper()
	stat := string(read(t, "/proc/"+strconv.Itoa(pid)+"/stat"))
	return strings.Fields(stat[strings.LastIndex(stat, ")")+1:])[0]
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// withoutK6 is a PATH with nothing but what bench needs: a k6 there would be measured.
func withoutK6(t *testing.T) string {
	t.Helper()
	return onPath(t, wrk, hey)
}
