package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type section struct {
	Name   string  `json:"name"`
	Count  int     `json:"count"`
	Ratio  float64 `json:"ratio"`
	On     bool    `json:"on"`
	Nested struct {
		Items []item `json:"items"`
	} `json:"nested"`
}

type item struct {
	Size int               `json:"size"`
	Tags []string          `json:"tags"`
	Sums map[string]string `json:"sums"`
}

func TestDecode(t *testing.T) {
	for _, c := range []struct {
		name, raw string
		want      []string
	}{
		{"no text is no problem", ``, nil},
		{"a full section has no problem", `{"name":"a","count":1,"ratio":0.5,"on":true,"nested":{"items":[{"size":2,"tags":["x"]}]}}`, nil},
		{"a whole number may be written with an exponent", `{"count":1e6}`, nil},
		{"an unknown key names the known ones", `{"nam":"a"}`, []string{"s.nam: the key is not known; use one of count, name, nested, on, ratio"}},
		{"a key in another case is unknown", `{"Name":"a"}`, []string{"s.Name: the key is not known; use one of count, name, nested, on, ratio"}},
		{"an index is part of the path", `{"nested":{"items":[{},{"size":"2"}]}}`, []string{`s.nested.items[1].size: "2" is not a whole number; write a whole number`}},
		{"a fraction is no whole number", `{"count":1.5}`, []string{"s.count: 1.5 is not a whole number; write a whole number"}},
		{"null is not the default", `{"name":null}`, []string{"s.name: null is not text; write text"}},
		{"a mapping of any keys has values of one type", `{"nested":{"items":[{"sums":{"b":1,"a":"x"}},{"sums":[]}]}}`, []string{
			"s.nested.items[0].sums.b: 1 is not text; write text",
			"s.nested.items[1].sums: [] is not a mapping; write a mapping",
		}},
		{"a text is no section", `hello`, []string{`s: "hello" is not a mapping; write a mapping`}},
		{"a list is no section", `[1]`, []string{"s: [1] is not a mapping; write a mapping"}},
		{"all problems come at once, in the order of the keys", `{"on":1,"count":"x","nested":{"items":[3,{"tags":"x"}]}}`, []string{
			`s.count: "x" is not a whole number; write a whole number`,
			"s.nested.items[0]: 3 is not a mapping; write a mapping",
			`s.nested.items[1].tags: "x" is not a list; write a list`,
			"s.on: 1 is not true or false; write true or false",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var into section
			var got []string
			for _, p := range Decode("s", []byte(c.raw), &into) {
				got = append(got, p.String())
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDecodeReadsWhatItCanOverTheDefaults(t *testing.T) {
	got := section{Name: "default", Count: 7, Ratio: 0.5}
	Decode("s", []byte(`{"count":"x","ratio":0.25,"nested":{"items":[1,{"size":3}]}}`), &got)
	want := section{Name: "default", Count: 7, Ratio: 0.25}
	want.Nested.Items = []item{{}, {Size: 3}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDecodeTakesAnythingInAMappingOfAnything(t *testing.T) {
	var got struct {
		Values map[string]any `json:"values"`
	}
	// To Helm null is not nothing: it takes a default away.
	if problems := Decode("s", []byte(`{"values":{"a":{"b":[1,"x"]},"c":null}}`), &got); problems != nil {
		t.Error(problems)
	}
	if diff := cmp.Diff(map[string]any{"a": map[string]any{"b": []any{1.0, "x"}}, "c": nil}, got.Values); diff != "" {
		t.Error(diff)
	}
	for _, raw := range []string{`{"values":[1]}`, `{"values":"a: 1"}`} {
		problems := Decode("s", []byte(raw), &got)
		if len(problems) != 1 || problems[0].Path != "s.values" || problems[0].Rule != "is not a mapping" {
			t.Errorf("%s: %v, want that it is not a mapping", raw, problems)
		}
	}
}

func TestMergeLeavesOutWhatFollowsFromAnUnreadValue(t *testing.T) {
	unread := []Problem{{Path: "s.hosts[1].cpus"}}
	values := []Problem{{Path: "s.hosts"}, {Path: "s.hosts[1].cpus"}, {Path: "s.hosts[1].cpusMax"}, {Path: "s.hosts[10].cpus"}, {Path: "s.edge"}}
	var got []string
	for _, p := range Merge(unread, values) {
		got = append(got, p.Path)
	}
	if diff := cmp.Diff([]string{"s.hosts[1].cpus", "s.hosts[1].cpusMax", "s.hosts[10].cpus", "s.edge"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestSections(t *testing.T) {
	sections, problems := Sections("lab", `{"lab:infra":"{}","lab:infar":"{}","aws:region":"x"}`, "infra", "workloads")
	if string(sections["infra"]) != "{}" || len(sections) != 1 {
		t.Errorf("sections: %q", sections)
	}
	if len(problems) != 1 || problems[0].String() != "infar: the key is not known; use one of infra, workloads" {
		t.Errorf("problems: %v", problems)
	}
}

func TestErrorHasALineForEachProblemAndTheFileToFix(t *testing.T) {
	if err := Error(nil, "Pulumi.local.yaml"); err != nil {
		t.Errorf("no problem gives %v", err)
	}
	err := Error([]Problem{{"a", "1", "is below 2", "raise it"}, {"b", "3", "is above 2", "lower it"}}, "Pulumi.local.yaml")
	for _, line := range []string{"2 to correct", "\n  a: 1 is below 2; raise it in Pulumi.local.yaml", "\n  b: 3 is above 2; lower it in Pulumi.local.yaml"} {
		if !strings.Contains(err.Error(), line) {
			t.Errorf("%q is not in %q", line, err)
		}
	}
}
