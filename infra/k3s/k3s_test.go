package k3s

import (
	"strings"
	"testing"
)

func TestParseVersion(t *testing.T) {
	for _, row := range []struct {
		text string
		want Version
		ok   bool
	}{
		{"v1.36.4+k3s1", Version{1, 36, 4, 1}, true},
		{"v1.29.10+k3s12", Version{1, 29, 10, 12}, true},
		{"v1.36.4-k3s1", Version{}, false}, // of an image's tag
		{"1.36.4+k3s1", Version{}, false},
		{"v1.36.4", Version{}, false},
		{"v1.36.4+k3s1-rc1", Version{}, false},
		{"v1.36.99999999999999999999+k3s1", Version{}, false},
		{"stable", Version{}, false},
	} {
		got, err := ParseVersion(row.text)
		if got != row.want || (err == nil) != row.ok || err != nil && !strings.Contains(err.Error(), row.text) {
			t.Errorf("%s: %v, %v; want %v, %v", row.text, got, err, row.want, row.ok)
		}
	}
}

func TestNamesInARelease(t *testing.T) {
	for _, row := range []struct{ got, want string }{
		{File("amd64"), "k3s"},
		{File("arm64"), "k3s-arm64"},
		{ImagesFile("arm64"), "k3s-airgap-images-arm64.tar.zst"},
		{SumsFile("amd64"), "sha256sum-amd64.txt"},
		{Expand(Releases+"/{file}", "v1.36.4+k3s1", "arm64"), "https://github.com/k3s-io/k3s/releases/download/v1.36.4+k3s1/k3s-arm64"},
		{Expand("/srv/{version}/k3s-{arch}", "v1.36.4+k3s1", "amd64"), "/srv/v1.36.4+k3s1/k3s-amd64"},
	} {
		if row.got != row.want {
			t.Errorf("%q, want %q", row.got, row.want)
		}
	}
}

func TestSum(t *testing.T) {
	a, b, c := strings.Repeat("a", 64), strings.Repeat("b", 64), strings.Repeat("c", 64)
	list := a + "  k3s-airgap-images-amd64.tar.zst\n" + b + "  k3s\n" + c + " *k3s-arm64\nxyz  k3s-broken\n"
	for _, row := range []struct{ name, file, want, says string }{
		{"the binary, not what begins like it", "k3s", b, ""},
		{"a name with the mark of a binary file", "k3s-arm64", c, ""},
		{"the images", "k3s-airgap-images-amd64.tar.zst", a, ""},
		{"what is not there", "k3s-s390x", "", "it has no sum of k3s-s390x"},
		{"what is no sum", "k3s-broken", "", `the sum of k3s-broken is "xyz"`},
	} {
		got, err := Sum(list, row.file)
		if got != row.want || (err == nil) != (row.says == "") || err != nil && !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %q, %v; want %q, %q", row.name, got, err, row.want, row.says)
		}
	}
}
