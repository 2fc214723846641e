package nspawn

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// source is one repository of an apt configuration.
type source struct {
	signedBy   string
	uri, suite string
	components []string
}

func (s source) String() string {
	options := ""
	if s.signedBy != "" {
		options = "[signed-by=" + s.signedBy + "] "
	}
	return fmt.Sprintf("deb %s%s %s %s", options, s.uri, s.suite, strings.Join(s.components, " "))
}

// distributionSources reads the machine's own apt configuration and keeps what
// is the distribution's: the release's suite, its updates and its security.
// Third-party repositories stay out of the base tree.
func distributionSources(root string) (suite string, lines []string, err error) {
	release, err := os.ReadFile(filepath.Join(root, "etc/os-release"))
	if err != nil {
		return "", nil, err
	}
	for line := range strings.Lines(string(release)) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "VERSION_CODENAME="); ok {
			suite = strings.Trim(v, `"`)
		}
	}
	if suite == "" {
		return "", nil, fmt.Errorf("/etc/os-release has no VERSION_CODENAME: the local stack needs Debian or Ubuntu")
	}
	files := []string{filepath.Join(root, "etc/apt/sources.list")}
	for _, pattern := range []string{"*.list", "*.sources"} {
		more, _ := filepath.Glob(filepath.Join(root, "etc/apt/sources.list.d", pattern))
		files = append(files, more...)
	}
	seen := map[string]bool{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		parse := parseOneLine
		if strings.HasSuffix(file, ".sources") {
			parse = parseDeb822
		}
		for _, s := range parse(string(raw)) {
			switch s.suite {
			case suite, suite + "-updates", suite + "-security":
				seen[s.String()] = true
			}
		}
	}
	for line := range seen {
		lines = append(lines, line)
	}
	sort.Strings(lines)
	if len(lines) == 0 {
		return "", nil, fmt.Errorf("no apt source for %s in /etc/apt: add the distribution's own sources", suite)
	}
	return suite, lines, nil
}

// parseOneLine reads the sources.list format (sources.list(5)).
func parseOneLine(text string) []source {
	var found []source
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), "deb ")
		if !ok {
			continue
		}
		var s source
		rest = strings.TrimSpace(rest)
		if strings.HasPrefix(rest, "[") {
			options, after, _ := strings.Cut(rest[1:], "]")
			rest = after
			for option := range strings.FieldsSeq(options) {
				if v, ok := strings.CutPrefix(option, "signed-by="); ok {
					s.signedBy = v
				}
			}
		}
		fields := strings.Fields(rest)
		if len(fields) < 3 {
			continue
		}
		s.uri, s.suite, s.components = fields[0], fields[1], fields[2:]
		found = append(found, s)
	}
	return found
}

// parseDeb822 reads the format of *.sources files; embedded keys are ignored.
func parseDeb822(text string) []source {
	var found []source
	for _, stanza := range strings.Split(text, "\n\n") {
		fields := map[string]string{}
		for line := range strings.Lines(stanza) {
			if strings.HasPrefix(line, "#") || strings.HasPrefix(line, " ") {
				continue
			}
			if key, value, ok := strings.Cut(line, ":"); ok {
				fields[strings.ToLower(key)] = strings.TrimSpace(value)
			}
		}
		if fields["enabled"] == "no" || !strings.Contains(" "+fields["types"]+" ", " deb ") {
			continue
		}
		for uri := range strings.FieldsSeq(fields["uris"]) {
			for suite := range strings.FieldsSeq(fields["suites"]) {
				found = append(found, source{fields["signed-by"], uri, suite, strings.Fields(fields["components"])})
			}
		}
	}
	return found
}
