package nspawn

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// source is one repository of an apt configuration.
type source struct {
	signedBy   string // keyring file
	trusted    string // "yes": without signatures
	uri, suite string
	components []string
}

func (s source) String() string {
	var options []string
	if s.signedBy != "" {
		options = append(options, "signed-by="+s.signedBy)
	}
	if s.trusted != "" {
		options = append(options, "trusted="+s.trusted)
	}
	text := "deb "
	if len(options) > 0 {
		text += "[" + strings.Join(options, " ") + "] "
	}
	return text + s.uri + " " + s.suite + " " + strings.Join(s.components, " ")
}

// distributionKeyring is what Debian and Ubuntu, also as raspbian and ports,
// call their keyrings' files.
var distributionKeyring = regexp.MustCompile(`^(debian|ubuntu|raspbian|raspberrypi)-archive-(.*-)?keyring\.(gpg|pgp|asc)$`)

var distributionComponents = []string{"main", "contrib", "non-free", "non-free-firmware", "rpi", "universe", "restricted", "multiverse"}

// ofDistribution tells the distribution's own repositories from a third party's
// for the same release, which has a key or components of its own.
func (s source) ofDistribution(release string) bool {
	switch s.suite {
	case release, release + "-updates", release + "-security", release + "/updates":
	default:
		return false
	}
	for _, c := range s.components {
		if !slices.Contains(distributionComponents, c) {
			return false
		}
	}
	return s.signedBy == "" || distributionKeyring.MatchString(filepath.Base(s.signedBy))
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
			if s.ofDistribution(suite) {
				seen[s.String()] = true
			}
		}
	}
	lines = slices.Sorted(maps.Keys(seen))
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
		kind, rest, _ := strings.Cut(strings.ReplaceAll(strings.TrimSpace(line), "\t", " "), " ")
		if kind != "deb" {
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
				if v, ok := strings.CutPrefix(option, "trusted="); ok {
					s.trusted = v
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

// parseDeb822 reads the format of *.sources files (deb822(5)).
func parseDeb822(text string) []source {
	var found []source
	for _, fields := range stanzas(text) {
		if off[strings.ToLower(fields["enabled"])] || !slices.Contains(strings.Fields(fields["types"]), "deb") {
			continue
		}
		for uri := range strings.FieldsSeq(fields["uris"]) {
			for suite := range strings.FieldsSeq(fields["suites"]) {
				found = append(found, source{fields["signed-by"], fields["trusted"], uri, suite, strings.Fields(fields["components"])})
			}
		}
	}
	return found
}

// off is how apt spells no.
var off = map[string]bool{"no": true, "false": true, "without": true, "off": true, "disable": true}

// stanzas reads stanzas of folded fields, with names in lower case.
func stanzas(text string) []map[string]string {
	var found []map[string]string
	fields, last := map[string]string{}, ""
	for line := range strings.Lines(text + "\n\n") {
		line = strings.TrimRight(line, " \t\r\n")
		key, value, ok := strings.Cut(line, ":")
		switch {
		case line == "":
			if len(fields) > 0 {
				found = append(found, fields)
			}
			fields, last = map[string]string{}, ""
		case line[0] == '#':
		case line[0] == ' ' || line[0] == '\t': // goes on from the line before
			fields[last] = strings.TrimSpace(fields[last] + "\n" + strings.TrimSpace(line))
		case ok:
			last = strings.ToLower(key)
			fields[last] = strings.TrimSpace(value)
		}
	}
	return found
}
