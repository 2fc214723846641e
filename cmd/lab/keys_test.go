package main

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lab/loadtest/analysis"
	"lab/loadtest/ledger"
)

// keysOf are the keys of a type's JSON, each with the path to it; those of a type
// that has a section of its own are left out.
func keysOf(t reflect.Type, path string, apart []reflect.Type) []string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		if t.Kind() == reflect.Slice {
			path += "[]"
		}
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || path != "" && slices.Contains(apart, t) {
		return []string{path}
	}
	var keys []string
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous && name == "":
			keys = append(keys, keysOf(field.Type, path, apart)...)
		case path == "":
			keys = append(keys, keysOf(field.Type, name, apart)...)
		default:
			keys = append(keys, keysOf(field.Type, path+"."+name, apart)...)
		}
	}
	return keys
}

// Every key that lab writes is in the table of docs/results.md, with its meaning,
// and the tables have no others.
func TestEveryKeyIsDocumented(t *testing.T) {
	raw, err := os.ReadFile("../../docs/results.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (.*) \\| (.*) \\|$")
	verdict, scenario := reflect.TypeFor[analysis.Verdict](), reflect.TypeFor[analysis.Scenario]()
	host, cluster := reflect.TypeFor[analysis.HostUse](), reflect.TypeFor[analysis.KubernetesUse]()
	for heading, of := range map[string]struct {
		value reflect.Type
		apart []reflect.Type
	}{
		"## lab analyze --json":           {reflect.TypeFor[explained](), nil},
		"## lab analyze --compare --json": {reflect.TypeFor[analysis.Comparison](), nil},
		"## The raw result":               {reflect.TypeFor[analysis.Result](), []reflect.Type{scenario, host, cluster}},
		"### The scenario":                {scenario, nil},
		"### A host":                      {host, nil},
		"### A cluster":                   {cluster, nil},
		"## The ledger":                   {reflect.TypeFor[ledger.Row](), []reflect.Type{verdict, scenario}},
	} {
		_, section, found := strings.Cut(string(raw), "\n"+heading+"\n")
		if !found {
			t.Errorf("no section %q", heading)
			continue
		}
		section, _, _ = strings.Cut(section, "\n#")
		var documented []string
		for _, cells := range row.FindAllStringSubmatch(section, -1) {
			documented = append(documented, cells[1])
			if strings.TrimSpace(cells[3]) == "" {
				t.Errorf("%s: %s has no meaning", heading, cells[1])
			}
		}
		if diff := cmp.Diff(keysOf(of.value, "", of.apart), documented); diff != "" {
			t.Errorf("%s (-written +documented):\n%s", heading, diff)
		}
	}
}
