package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// commands are the indented lines below a heading of a page.
func commands(t *testing.T, page, heading string) []string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", page))
	if err != nil {
		t.Fatal(err)
	}
	_, below, found := strings.Cut(string(raw), heading+"\n")
	if !found {
		t.Fatalf("%s has no %q", page, heading)
	}
	below, _, _ = strings.Cut(below, "\n## ")
	var lines []string
	for line := range strings.Lines(below) {
		if command, indented := strings.CutPrefix(line, "    "); indented {
			lines = append(lines, strings.TrimSpace(command))
		}
	}
	if len(lines) == 0 {
		t.Fatalf("%s has no commands below %q", page, heading)
	}
	return lines
}

// documented runs what the README says of plain Pulumi, line by line, but for
// the destroy, which is the test's own end. It adds a row.
func (s *stack) documented(ledger string, rows int) {
	s.t.Helper()
	lines := commands(s.t, "README.md", "## Then it is plain Pulumi")
	path, rest := lines[0], lines[1:]
	last := len(rest) - 1
	if !strings.HasPrefix(rest[last], "pulumi destroy") {
		s.t.Fatalf("the README's last line of plain Pulumi is %q, want pulumi destroy", rest[last])
	}
	for _, line := range rest[:last] {
		out := s.shell(path + "\n" + line)
		if strings.HasPrefix(line, "pulumi up") {
			if diff := cmp.Diff([]string{"app", "ledger", "load", "released", "run"}, changed(out)); diff != "" {
				s.t.Errorf("the README's change of a knob changes (-want +got):\n%s\n%s", diff, out)
			}
		}
		if strings.HasPrefix(line, "pulumi stack output ceiling") && strings.TrimSpace(out) != ">=12" {
			s.t.Errorf("%s prints %q, want >=12", line, out)
		}
	}
	if got := ledgerRows(s.t, ledger); got != rows+1 {
		s.t.Errorf("the ledger has %d rows after the README's change, want %d", got, rows+1)
	}
	for _, target := range []string{"preview", "table", "env"} {
		s.shell("make " + target + " STACK=e2e")
	}
}

// checked runs what docs/measurement.md says of checking a number, over the rows
// of this stack.
func (s *stack) checked() {
	s.t.Helper()
	for _, line := range commands(s.t, "docs/measurement.md", "## Check a number") {
		out := s.shell(strings.ReplaceAll(line, "results/local", "results/e2e"))
		if strings.Contains(line, "analyze") && !strings.Contains(line, "--json") && !strings.Contains(out, "why\n") {
			s.t.Errorf("%s does not say why:\n%s", line, out)
		}
	}
}

// TestDocumentsNameWhatExists finds the make targets that the pages speak of in
// the Makefile's own list.
func TestDocumentsNameWhatExists(t *testing.T) {
	s := &stack{t: t, root: "..", env: os.Environ()}
	help := s.shell("make help")
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, "../README.md") {
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		words := strings.FieldsFunc(string(raw), func(r rune) bool { return strings.ContainsRune(" `\n\"$().,:;", r) })
		for i := range words[1:] {
			if words[i] == "make" && words[i+1] != "-s" && !slices.Contains(strings.Fields(help), words[i+1]) {
				t.Errorf("%s speaks of make %s, which make help does not list", page, words[i+1])
			}
		}
	}
}
