// Package k3s knows the releases of k3s: how their versions are written and
// follow each other, and what their files are called.
package k3s

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Archs are the architectures that sums are pinned for, as Go names them.
var Archs = []string{"amd64", "arm64"}

// Releases is where the files of a version are, unless a stack says otherwise.
const Releases = "https://github.com/k3s-io/k3s/releases/download/{version}"

// Version is one of k3s: that of Kubernetes, and k3s' own count on top of it.
type Version struct{ Major, Minor, Patch, Build int }

var (
	versionRule = regexp.MustCompile(`^v(\d+)\.(\d+)\.(\d+)\+k3s(\d+)$`)
	sumRule     = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// ParseVersion reads a version such as v1.36.4+k3s1.
func ParseVersion(text string) (Version, error) {
	parts := versionRule.FindStringSubmatch(text)
	if parts == nil {
		return Version{}, fmt.Errorf("%q is no version of k3s such as v1.36.4+k3s1", text)
	}
	var n [4]int
	for i := range n {
		value, err := strconv.Atoi(parts[i+1])
		if err != nil {
			return Version{}, fmt.Errorf("%q is no version of k3s: %w", text, err)
		}
		n[i] = value
	}
	return Version{n[0], n[1], n[2], n[3]}, nil
}

// IsSum tells whether a text is a SHA-256 in hexadecimal.
func IsSum(text string) bool { return sumRule.MatchString(text) }

// File is the name of the binary in a release.
func File(arch string) string {
	if arch == "amd64" {
		return "k3s"
	}
	return "k3s-" + arch
}

// ImagesFile is the name of the archive of images in a release, for nodes that
// reach no registry.
func ImagesFile(arch string) string { return "k3s-airgap-images-" + arch + ".tar.zst" }

// SumsFile is the name of the list of sums in a release.
func SumsFile(arch string) string { return "sha256sum-" + arch + ".txt" }

// Expand fills in what stands in braces in an address or a path: {version},
// {arch} and {file}, the binary's name.
func Expand(text, version, arch string) string {
	return strings.NewReplacer("{version}", version, "{arch}", arch, "{file}", File(arch)).Replace(text)
}

// Sum finds the sum of a file in a list of sums. The name has to be the very
// same: a list has k3s-arm64 and k3s-airgap-images-arm64.tar.zst too.
func Sum(list, file string) (string, error) {
	for line := range strings.Lines(list) {
		fields := strings.Fields(line)
		if len(fields) != 2 || strings.TrimPrefix(fields[1], "*") != file {
			continue
		}
		if !IsSum(fields[0]) {
			return "", fmt.Errorf("the sum of %s is %q, not 64 of 0-9 and a-f", file, fields[0])
		}
		return fields[0], nil
	}
	return "", fmt.Errorf("it has no sum of %s", file)
}
