package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Checker collects the problems of a section's values.
type Checker struct{ Problems []Problem }

// Add keeps a problem unless ok.
func (k *Checker) Add(ok bool, path string, value any, rule, fix string) {
	if !ok {
		text := fmt.Sprint(value)
		if s, isText := value.(string); isText {
			text = strconv.Quote(s)
		}
		k.Problems = append(k.Problems, Problem{Path: path, Value: text, Rule: rule, Fix: fix})
	}
}

// Within wants low ≤ value ≤ high; why says where the bounds come from.
func (k *Checker) Within(path string, value, low, high int, why string) {
	k.Add(value >= low, path, value, fmt.Sprintf("is below %d (%s)", low, why), "raise it")
	k.Add(value <= high, path, value, fmt.Sprintf("is above %d (%s)", high, why), "lower it")
}

// OneOf wants one of the allowed words.
func (k *Checker) OneOf(path, value string, allowed []string) {
	k.Add(slices.Contains(allowed, value), path, value, "is not known", "use one of "+strings.Join(allowed, ", "))
}
