// Package config reads the stack's configuration strictly: unknown keys and wrong
// types are problems, and all problems are reported at once.
package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Problem is one thing wrong with a configuration.
type Problem struct {
	Path  string // infra.hosts[2].memoryMiB
	Value string // as given, text in quotes
	Rule  string // is below 1024 (k3s server minimum)
	Fix   string // raise it
}

// String is the problem on one line.
func (p Problem) String() string {
	return fmt.Sprintf("%s: %s %s; %s", p.Path, p.Value, p.Rule, p.Fix)
}

// Error joins the problems into one error, a line each, which ends in the file
// to fix; nil for none.
func Error(problems []Problem, file string) error {
	if len(problems) == 0 {
		return nil
	}
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = p.String() + " in " + file
	}
	return fmt.Errorf("check the configuration: %d to correct, nothing was touched\n  %s", len(problems), strings.Join(lines, "\n  "))
}

// Merge adds the problems of the values to those of what could not be read. A
// value that could not be read has its default or zero, so what is said about
// it, about what it holds or about what holds it, is left out.
func Merge(unread, values []Problem) []Problem {
	merged := append([]Problem{}, unread...)
	for _, v := range values {
		if !slices.ContainsFunc(unread, func(u Problem) bool { return within(u.Path, v.Path) || within(v.Path, u.Path) }) {
			merged = append(merged, v)
		}
	}
	return merged
}

// within tells whether path is outer or below it.
func within(path, outer string) bool {
	rest, ok := strings.CutPrefix(path, outer)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// Sections splits Pulumi's configuration (a JSON object of strings, keys
// "project:key") into the project's sections. A key that is not wanted is a problem.
func Sections(project, pulumiConfig string, wanted ...string) (map[string][]byte, []Problem) {
	var all map[string]string
	if err := json.Unmarshal([]byte(pulumiConfig), &all); err != nil {
		return nil, []Problem{{project, "the configuration", "is not an object of texts", "correct what Pulumi is given"}}
	}
	sections := map[string][]byte{}
	var problems []Problem
	for _, key := range slices.Sorted(maps.Keys(all)) {
		name, ok := strings.CutPrefix(key, project+":")
		if !ok {
			continue
		}
		if !slices.Contains(wanted, name) {
			problems = append(problems, unknown(name, wanted))
			continue
		}
		sections[name] = []byte(all[key])
	}
	return sections, problems
}

// Decode reads a section, as JSON, over the defaults that into points to, and
// reports every unknown key and every value of a wrong type. What it can't read
// keeps its default; in a list it is the zero value. No text is no problem.
func Decode(section string, raw []byte, into any) []Problem {
	if len(raw) == 0 {
		return nil
	}
	var tree any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return []Problem{{section, strconv.Quote(string(raw)), "is not a mapping", "write a mapping"}}
	}
	tree, problems := readable(section, tree, reflect.TypeOf(into).Elem())
	if tree == nil {
		return problems
	}
	clean, err := json.Marshal(tree)
	if err == nil {
		err = json.Unmarshal(clean, into)
	}
	if err != nil {
		problems = append(problems, Problem{section, "the section", "can't be read: " + err.Error(), "correct it"})
	}
	return problems
}

// readable is what of a decoded tree fits the type, nil for nothing, and what does not.
func readable(path string, tree any, t reflect.Type) (any, []Problem) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Struct:
		if object, ok := tree.(map[string]any); ok {
			return readableObject(path, object, t)
		}
		return nil, mismatch(path, tree, "a mapping")
	case reflect.Slice:
		list, ok := tree.([]any)
		if !ok {
			return nil, mismatch(path, tree, "a list")
		}
		items, problems := make([]any, len(list)), []Problem(nil)
		for i, item := range list {
			var found []Problem
			items[i], found = readable(fmt.Sprintf("%s[%d]", path, i), item, t.Elem())
			problems = append(problems, found...)
		}
		return items, problems
	case reflect.Map:
		object, ok := tree.(map[string]any)
		if !ok {
			return nil, mismatch(path, tree, "a mapping")
		}
		if t.Elem().Kind() == reflect.Interface { // as a chart's values: what is in it is not ours to know
			return object, nil
		}
		clean, problems := map[string]any{}, []Problem(nil)
		for _, key := range slices.Sorted(maps.Keys(object)) {
			value, found := readable(path+"."+key, object[key], t.Elem())
			problems = append(problems, found...)
			if value != nil {
				clean[key] = value
			}
		}
		return clean, problems
	case reflect.String:
		if _, ok := tree.(string); !ok {
			return nil, mismatch(path, tree, "text")
		}
	case reflect.Bool:
		if _, ok := tree.(bool); !ok {
			return nil, mismatch(path, tree, "true or false")
		}
	case reflect.Float64:
		if _, ok := tree.(float64); !ok {
			return nil, mismatch(path, tree, "a number")
		}
	case reflect.Int, reflect.Int64:
		if n, ok := tree.(float64); !ok || n != math.Trunc(n) || math.Abs(n) > 1<<53 {
			return nil, mismatch(path, tree, "a whole number")
		}
		return int64(tree.(float64)), nil // 1e+06 is no integer to encoding/json
	}
	return tree, nil
}

func readableObject(path string, object map[string]any, t reflect.Type) (any, []Problem) {
	fields := map[string]reflect.Type{}
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" && name != "-" {
			fields[name] = t.Field(i).Type
		}
	}
	clean, problems := map[string]any{}, []Problem(nil)
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if fields[key] == nil {
			problems = append(problems, unknown(path+"."+key, slices.Collect(maps.Keys(fields))))
			continue
		}
		value, found := readable(path+"."+key, object[key], fields[key])
		problems = append(problems, found...)
		if value != nil {
			clean[key] = value
		}
	}
	return clean, problems
}

func mismatch(path string, tree any, want string) []Problem {
	raw, err := json.Marshal(tree)
	if err != nil {
		raw = []byte("the value")
	}
	return []Problem{{path, string(raw), "is not " + want, "write " + want}}
}

func unknown(path string, names []string) Problem {
	return Problem{path, "the key", "is not known", "use one of " + strings.Join(slices.Sorted(slices.Values(names)), ", ")}
}
