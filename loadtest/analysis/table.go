package analysis

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// TableRow is one row of the table that a lab is for.
type TableRow struct {
	Step           string `json:"step"`
	Ceiling        string `json:"ceiling"`
	Wall           string `json:"wall"`
	SLOCapacity    string `json:"sloCapacity"`
	KneeP95        string `json:"kneeP95"`
	Valid          bool   `json:"valid"`
	ScenarioDigest string `json:"scenarioDigest"`
}

// Row is the verdict as a row, under its step's name.
func Row(step string, v Verdict) TableRow {
	row := TableRow{step, ceilingText(v), v.Wall, v.SLOCapacity, "none", v.Valid, v.ScenarioDigest}
	if v.KneeRPS > 0 {
		row.KneeP95 = fmt.Sprintf("%.0f ms", v.KneeP95Ms)
	}
	if v.Status == StatusRetrograde {
		row.Ceiling += fmt.Sprintf(" (falls to %s)", formatRate(v.CollapsedRPS))
	}
	return row
}

// ceilingText is the ceiling for people: 1,398 ±1.2 % (3 runs). One run alone has
// no such figure.
func ceilingText(v Verdict) string {
	if v.Ceiling == "none" {
		return v.Ceiling
	}
	text := strings.TrimSuffix(v.Ceiling, strings.TrimPrefix(v.Ceiling, ">=")) + thousands(strings.TrimPrefix(v.Ceiling, ">="))
	if v.repeated() {
		half := max(v.HighRPS-v.CeilingRPS, v.CeilingRPS-v.LowRPS)
		text += fmt.Sprintf(" ±%.1f %% (%d runs)", 100*half/v.CeilingRPS, len(v.Runs))
	}
	return text
}

// repeated says whether the interval is one between runs. That of a single run
// holds its own noise only, and says nothing of how far the next would be off.
func (v Verdict) repeated() bool { return len(v.Runs) > 1 && v.HighRPS > 0 }

// thousands puts commas into a number of more than three digits.
func thousands(number string) string {
	whole, fraction, found := strings.Cut(number, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if found {
		return whole + "." + fraction
	}
	return whole
}

// Table is the rows in Markdown. Rows of another scenario than the last row's
// are marked: they do not compare with it.
func Table(rows []TableRow) string {
	var b strings.Builder
	b.WriteString("| step | ceiling (req/s) | what saturated | SLO capacity | p95 at the knee | valid |\n|---|---|---|---|---|---|\n")
	marked := false
	for _, r := range rows {
		step := cell(r.Step)
		if r.ScenarioDigest != rows[len(rows)-1].ScenarioDigest {
			step, marked = step+" *", true
		}
		valid := "yes"
		if !r.Valid {
			valid = "no"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", step, cell(r.Ceiling), cell(r.Wall), cell(r.SLOCapacity), cell(r.KneeP95), valid)
	}
	if marked {
		b.WriteString("\n\\* measured with another scenario than the last row: don't compare.\n")
	}
	return b.String()
}

func cell(text string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ").Replace(text)
}

// formatRate prints a rate with three significant digits, and whole from 100 up.
func formatRate(rps float64) string {
	if rps >= 100 {
		return strconv.Itoa(int(math.Round(rps)))
	}
	return strconv.FormatFloat(rps, 'g', 3, 64)
}
