package analysis

import "fmt"

// Comparison is how one ceiling stands to another's.
type Comparison struct {
	Ratio     float64 `json:"ratio"`    // of the second to the first
	LowRatio  float64 `json:"lowRatio"` // from their intervals; 0 when one has none
	HighRatio float64 `json:"highRatio"`
	Different bool    `json:"different"`         // the intervals do not overlap
	Unknown   string  `json:"unknown,omitempty"` // why that can't be known, and what to do; Different is then false
	Sentence  string  `json:"sentence"`
}

// Compare compares the ceilings of a and b. It refuses results without a ceiling
// and, unless across, those of different scenarios: they asked different questions.
func Compare(a, b Result, across bool) (Comparison, error) {
	if da, db := ScenarioDigest(a.Scenario), ScenarioDigest(b.Scenario); da != db && !across {
		return Comparison{}, fmt.Errorf("compare runs %s and %s: their scenarios differ (%s, %s)", a.RunID, b.RunID, da, db)
	}
	va, vb := Analyze(a), Analyze(b)
	for _, of := range []struct {
		id string
		v  Verdict
	}{{a.RunID, va}, {b.RunID, vb}} {
		if of.v.Status != StatusFound && of.v.Status != StatusRetrograde {
			return Comparison{}, fmt.Errorf("compare runs %s and %s: %s has no ceiling, its status is %s", a.RunID, b.RunID, of.id, of.v.Status)
		}
	}
	c := Comparison{Ratio: vb.CeilingRPS / va.CeilingRPS}
	text := fmt.Sprintf("%s to %s req/s: ×%.2f", formatRate(va.CeilingRPS), formatRate(vb.CeilingRPS), c.Ratio)
	c.Unknown = withoutInterval(a.RunID, va)
	if c.Unknown == "" {
		c.Unknown = withoutInterval(b.RunID, vb)
	}
	if c.Unknown != "" {
		c.Sentence = text + ", " + c.Unknown
		return c, nil
	}
	c.LowRatio, c.HighRatio = vb.LowRPS/va.HighRPS, vb.HighRPS/va.LowRPS
	c.Different = vb.LowRPS > va.HighRPS || vb.HighRPS < va.LowRPS
	text += fmt.Sprintf(" (%.2f to %.2f)", c.LowRatio, c.HighRatio)
	if !c.Different {
		text += ", no difference beyond the intervals"
	}
	c.Sentence = text
	return c, nil
}

// withoutInterval says that a ceiling can't be told apart from another, and why;
// "" when it can.
func withoutInterval(runID string, v Verdict) string {
	if v.repeated() {
		return ""
	}
	return fmt.Sprintf("unknown whether they differ: no interval, since %s is a single run; measure with scenario.repeats: 3", runID)
}
