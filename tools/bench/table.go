package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// busyRatio of the CPUs in others' hands is what the analysis of a load test takes
// for a busy machine, too.
const busyRatio = 0.2

// report is the whole result.
type report struct {
	CPUs         int     `json:"cpus"`
	Model        string  `json:"model"` // of the processor
	Rounds       int     `json:"rounds"`
	Seconds      float64 `json:"seconds"` // of each measurement
	Bars         []bar   `json:"bars"`
	Rows         []row   `json:"rows"`
	ForeignRatio float64 `json:"foreignRatio"` // the largest of a measurement
}

func newReport(cpus int, model string, rounds int, seconds float64, rows []row) report {
	r := report{CPUs: cpus, Model: model, Rounds: rounds, Seconds: seconds, Bars: bars(rows), Rows: rows}
	for _, row := range rows {
		r.ForeignRatio = max(r.ForeignRatio, row.ForeignRatio)
	}
	return r
}

// missed says whether a bar is.
func (r report) missed() bool {
	return slices.ContainsFunc(r.Bars, func(b bar) bool { return b.Verdict == missed })
}

// column is a figure of a table: the median over the rounds.
type column struct {
	head string
	of   func(row) float64
}

var (
	cpuColumn  = column{"CPU ms for 1,000", row.cpuMsPer1000}
	rssColumn  = column{"RSS MiB", func(r row) float64 { return r.RSSMiB }}
	lostColumn = column{"failed", func(r row) float64 { return float64(r.Failed) }}
	rateColumn = column{"req/s", func(r row) float64 { return r.SeenRPS }}
	percentile = []column{
		{"p50 ms", func(r row) float64 { return r.P50Ms }},
		{"p95 ms", func(r row) float64 { return r.P95Ms }},
		{"p99 ms", func(r row) float64 { return r.P99Ms }},
	}
	pacedColumns = append([]column{
		cpuColumn, rssColumn,
		{"rate error %", func(r row) float64 { return 100 * r.RateErrorRatio }},
		{"not sent", func(r row) float64 { return float64(r.NotSent) }},
		lostColumn,
		{"lag p50 ms", func(r row) float64 { return r.LagP50Ms }},
	}, percentile...)
)

// markdown prints the tables, the bars last.
func (r report) markdown(w io.Writer) {
	fmt.Fprintf(w, "Median of %d rounds of %g s on %d CPUs (%s), shared by generator and target; up to %.1f %% of them used by others.\n",
		r.Rounds, r.Seconds, r.CPUs, r.Model, 100*r.ForeignRatio)
	if r.Rounds < 3 {
		fmt.Fprintln(w, "Fewer than three rounds: a first look, not a verdict.")
	}
	if r.ForeignRatio >= busyRatio {
		fmt.Fprintln(w, "The machine was busy with something else: measure again when it is quiet.")
	}
	for _, c := range []string{caseSlow, caseFast} {
		r.table(w, thousands(paces[c])+" req/s", c, pacedColumns)
	}
	wrkRPS := median(r.Rows, caseClosed, wrk, rateColumn.of)
	r.table(w, fmt.Sprintf("as fast as %d connections go", connections), caseClosed, append([]column{
		rateColumn, {"× wrk", func(r row) float64 { return r.SeenRPS / wrkRPS }}, cpuColumn, rssColumn, lostColumn,
	}, percentile...))
	theory := frozenTheoryMs(frozenPart * r.Seconds)
	r.table(w, fmt.Sprintf("%d req/s, the target frozen for %s s of %g s: p95 must be %s ms", frozenRPS, figure(frozenPart*r.Seconds), r.Seconds, thousands(theory)),
		caseFrozen, append(slices.Clone(percentile), column{"p95 ÷ theory", func(r row) float64 { return r.P95Ms / frozenTheoryMs(r.FreezeSeconds) }}))
	r.table(w, fmt.Sprintf("search, %d requests of %g ms at a time", places, ms(held)), caseKnown, []column{
		{"ceiling req/s", func(r row) float64 { return r.Ceiling.CeilingRPS }},
		{"capacity req/s", func(r row) float64 { return r.CapacityRPS }},
		{"error %", ceilingError},
		{"load s", func(r row) float64 { return r.Ceiling.LoadSeconds }},
	})
	fmt.Fprint(w, "\n| bar of the built-in engine | must be | is | |\n|---|---|---|---|\n")
	for _, b := range r.Bars {
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", b.What, b.Rule, b.Shown, b.Verdict)
	}
}

// table is one case, a line a generator, in the order of the first round.
func (r report) table(w io.Writer, title, c string, columns []column) {
	heads := []string{title}
	for _, column := range columns {
		heads = append(heads, column.head)
	}
	fmt.Fprintf(w, "\n| %s |\n|%s\n", strings.Join(heads, " | "), strings.Repeat("---|", len(heads)))
	for _, row := range r.Rows {
		if row.Case != c || row.Round != 1 {
			continue
		}
		cells := []string{row.Generator}
		for _, column := range columns {
			cells = append(cells, figure(median(r.Rows, c, row.Generator, column.of)))
		}
		fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
	}
}
