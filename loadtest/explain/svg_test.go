package explain

import (
	"encoding/xml"
	"strings"
	"testing"

	"lab/golden"
	"lab/loadtest/analysis"
	"lab/loadtest/results"
)

// walked is a search over a system that answers a rate with what it completes and
// a p95, in ms.
func walked(sc analysis.Scenario, system func(run int, offered float64) (completed, p95Ms float64)) analysis.Result {
	r := analysis.Result{Version: 1, RunID: "0123456789abcdef", Started: "2026-12-03T04:00:00Z", Engine: "builtin", Target: "http://10.77.0.14:80", Scenario: sc}
	for len(r.Steps) < 200 {
		p, done := analysis.Next(sc, r.Steps)
		if done {
			break
		}
		s := analysis.Step{Run: p.Run, Phase: p.Phase, OfferedRPS: p.OfferedRPS, Seconds: p.Seconds - p.DiscardSeconds}
		completed, p95 := system(p.Run, p.OfferedRPS)
		s.Arrivals, s.Completed = int64(p.OfferedRPS*s.Seconds), int64(completed*s.Seconds)
		s.P50Ms, s.P95Ms, s.P99Ms, s.MeanMs = p95/2, p95, 2*p95, p95/2
		s.BacklogSlopeRPS = p.OfferedRPS - completed
		s.Hosts = []analysis.HostUse{{
			Host: "app", Roles: []string{"app"}, Samples: int(s.Seconds), CPUs: 0.5, CPURatio: min(0.98, completed/310), CPUSeconds: s.Seconds * 0.49 * completed / 310,
			PSICPURatio: -1, PSIIORatio: -1, DiskRatio: -1, MemoryRatio: 0.4,
		}}
		r.Steps = append(r.Steps, s)
		r.LoadSeconds += p.Seconds
	}
	return r
}

func flat(capacity float64) func(int, float64) (float64, float64) {
	return func(_ int, offered float64) (float64, float64) {
		if offered > capacity {
			return capacity, 4000
		}
		return offered, 12 + 8*offered/capacity
	}
}

// kinds are a result of each kind that is drawn otherwise.
func kinds(t *testing.T) map[string]analysis.Result {
	t.Helper()
	sc := analysis.DefaultScenario()
	sc.FloorRPS, sc.Repeats, sc.Endpoints = 20, 1, nil
	capped, three := sc, sc
	capped.CapRPS, three.Repeats = 250, 3
	schedule := analysis.DefaultScenario()
	schedule.Kind, schedule.Engine, schedule.Repeats, schedule.MaxInFlight = analysis.KindBreakpoint, analysis.EngineK6, 1, 300
	schedule.FloorRPS, schedule.RiseRPS, schedule.CapRPS, schedule.StepSeconds, schedule.StepDiscard = 120, 10, 260, 5, 1
	loaded, err := results.Load([]string{"../k6/testdata/sat-known-1/samples.ndjson.gz"}, &schedule)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]analysis.Result{
		"cap-reached": walked(capped, flat(300)),
		"retrograde": walked(sc, func(_ int, offered float64) (float64, float64) {
			if offered > 300 {
				return max(150, 300-1.5*(offered-300)), 6000
			}
			return offered, 15
		}),
		"three-runs": walked(three, func(run int, offered float64) (float64, float64) { return flat(300+4*float64(run))(run, offered) }),
		"k6":         loaded.Results[0].Result,
	}
}

func TestKinds(t *testing.T) {
	for name, status := range map[string]analysis.Status{
		"cap-reached": analysis.StatusCapReached, "retrograde": analysis.StatusRetrograde, "three-runs": analysis.StatusFound, "k6": analysis.StatusFound,
	} {
		r := kinds(t)[name]
		if v := analysis.Analyze(r); v.Status != status {
			t.Fatalf("%s: %s, want %s: %v", name, v.Status, status, v.Invalid)
		}
		golden.Check(t, "testdata/"+name+".txt", Text(name, r, Options{}))
		svg, err := SVG(r, name)
		if err != nil {
			t.Fatal(err)
		}
		golden.Check(t, "testdata/"+name+".svg", svg)
	}
}

// The picture of docs/measurement.md is this run's.
func TestSVG(t *testing.T) {
	svg, err := SVG(load(t), "A database connection per request")
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "../../docs/curve.svg", svg)
	if _, err := SVG(analysis.Result{RunID: "empty"}, "x"); err == nil {
		t.Error("a run without a step was drawn")
	}
}

// element is a part of a picture with its text.
type element struct {
	XMLName  xml.Name
	Attrs    []xml.Attr `xml:",any,attr"`
	Text     string     `xml:",chardata"`
	Children []element  `xml:",any"`
}

func (e element) attr(name string) string {
	for _, a := range e.Attrs {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

func TestThePictureHasANameForWhoCanNotSeeIt(t *testing.T) {
	all := kinds(t)
	all["local"] = load(t)
	ids := map[string]bool{}
	for name, r := range all {
		r.RunID += name
		svg, err := SVG(r, `<b> & "quoted" `+name)
		if err != nil {
			t.Fatal(err)
		}
		var root element
		if err := xml.Unmarshal([]byte(svg), &root); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		title, desc := root.Children[0], root.Children[1]
		if root.attr("role") != "img" || root.attr("aria-labelledby") != title.attr("id")+" "+desc.attr("id") || title.Text != `<b> & "quoted" `+name || !strings.Contains(desc.Text, "Ceiling ") {
			t.Errorf("%s: role %q, labelled by %q; title %+v, desc %+v", name, root.attr("role"), root.attr("aria-labelledby"), title, desc)
		}
		if ids[title.attr("id")] {
			t.Errorf("%s: two pictures on one page share the id %q", name, title.attr("id"))
		}
		ids[title.attr("id")] = true
	}
}

// At 400 pixels, the text at its largest, no name lies upon another or on a point,
// and the heading fits.
func TestNamesCoverNothing(t *testing.T) {
	all := kinds(t)
	all["local"] = load(t)
	narrow := load(t) // a wall of many words
	narrow.Aborted = strings.Repeat("the runner was told to stop ", 6)
	all["aborted"] = narrow
	for kind, r := range all {
		e := analysis.Explain(r)
		top, slowest, fastest := extent(r, e)
		a := newAxes(top, slowest, fastest)
		var d drawing
		d.head("A title of more than a few words, as a step of a series may have", e.Verdict.Wall)
		d.grid(a)
		d.points(e, a)
		d.marks(r, e.Verdict, a)
		for _, h := range d.Heading {
			if n := len([]rune(h.Text)); n > subtitleChars {
				t.Errorf("%s: a heading of %d characters: %s", kind, n, h.Text)
			}
		}
		names := d.Names
		for i, n := range names {
			d.Names = append(append([]name{}, names[:i]...), names[i+1:]...)
			if covered := d.covered(n.Text, box{float64(n.X), float64(n.Y), n.Anchor}); covered > 0 {
				t.Errorf("%s: %q covers %d others", kind, n.Text, covered)
			}
		}
		for i, c := range d.Columns[1:] {
			if room := float64(c.At - d.Columns[i].At); room < 6*float64(len(c.Label))+6 {
				t.Errorf("%s: %q has %g pixels", kind, c.Label, room)
			}
		}
	}
}

func TestAxesOfAnyRate(t *testing.T) {
	for _, top := range []float64{1, 3.7, 9.99, 12, 130, 699, 5000, 50_000, 100_000} {
		var d drawing
		d.grid(newAxes(top, 900, 900))
		if n := len(d.Columns); n < 3 || n > mostTicks+1 {
			t.Errorf("up to %g: %d ticks", top, n)
		}
		for _, c := range d.Columns {
			if strings.Contains(c.Label, "e") || len(c.Label) > 6 {
				t.Errorf("up to %g: tick %q", top, c.Label)
			}
		}
	}
}

func TestFolded(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "[]",
		"one two three":              "[one two three]",
		"one two three four":         "[one two three|four]",
		"averyveryverylongword x":    "[averyveryverylongword|x]",
		"einsürgh zweiürgh dreiürgh": "[einsürgh|zweiürgh|dreiürgh]",
	} {
		if got := "[" + strings.Join(folded(text, 13), "|") + "]"; got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
