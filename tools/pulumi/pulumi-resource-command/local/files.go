package local

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
)

// collect fills the outputs `assets` and `archive` with the files that the
// globs of assetPaths and archivePaths name below the command's folder.
func (s *State) collect() error {
	dir := "."
	if s.Dir != nil {
		dir = *s.Dir
	}
	s.Assets, s.Archive = nil, nil
	if s.AssetPaths != nil {
		paths, err := matching(dir, *s.AssetPaths)
		if err != nil {
			return fmt.Errorf("assetPaths: %w", err)
		}
		assets := map[string]*resource.Asset{}
		for _, path := range paths {
			if assets[path], err = resource.NewPathAsset(filepath.Join(dir, path)); err != nil {
				return fmt.Errorf("assetPaths: %w", err)
			}
		}
		s.Assets = &assets
	}
	if s.ArchivePaths != nil {
		paths, err := matching(dir, *s.ArchivePaths)
		if err != nil {
			return fmt.Errorf("archivePaths: %w", err)
		}
		assets := map[string]any{}
		for _, path := range paths {
			if assets[path], err = resource.NewPathAsset(filepath.Join(dir, path)); err != nil {
				return fmt.Errorf("archivePaths: %w", err)
			}
		}
		if s.Archive, err = resource.NewAssetArchive(assets); err != nil {
			return fmt.Errorf("archivePaths: %w", err)
		}
	}
	return nil
}

// matching lists the files below dir whose relative path the rules include. The
// last rule that matches a path decides; one that starts with "!" excludes.
func matching(dir string, rules []string) ([]string, error) {
	expressions := make([]*regexp.Regexp, len(rules))
	for i, rule := range rules {
		expression, err := globExpression(strings.TrimPrefix(rule, "!"))
		if err != nil {
			return nil, fmt.Errorf("%q: %w", rule, err)
		}
		expressions[i] = expression
	}
	var out []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		path, err = filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		path = filepath.ToSlash(path)
		included := false
		for i, expression := range expressions {
			if expression.MatchString(path) {
				included = !strings.HasPrefix(rules[i], "!")
			}
		}
		if included {
			out = append(out, path)
		}
		return nil
	})
	return out, err
}

// globExpression translates a glob: * and ? stay within a path's element, ** does
// not, {a,b} is one of several.
func globExpression(glob string) (*regexp.Regexp, error) {
	var out strings.Builder
	out.WriteString("^")
	braces := 0
	for i := 0; i < len(glob); i++ {
		switch c := glob[i]; {
		case strings.HasPrefix(glob[i:], "**"):
			out.WriteString(".*")
			i++
		case c == '*':
			out.WriteString("[^/]*")
		case c == '?':
			out.WriteString("[^/]")
		case c == '{':
			out.WriteString("(?:")
			braces++
		case c == '}' && braces > 0:
			out.WriteString(")")
			braces--
		case c == ',' && braces > 0:
			out.WriteString("|")
		default:
			out.WriteString(regexp.QuoteMeta(glob[i : i+1]))
		}
	}
	out.WriteString("$")
	return regexp.Compile(out.String())
}
