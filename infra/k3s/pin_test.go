package k3s

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWritePin(t *testing.T) {
	p := Pin{"v1.36.4+k3s1", map[string]string{"amd64": "aa", "arm64": "bb"}, map[string]string{"amd64": "cc", "arm64": "dd"}}
	for _, row := range []struct{ name, stack, want string }{
		{"a stack without a cluster gets one", `# My lab.
config:
  lab:infra:
    network: {subnet: 192.168.1.0/24} # at home
    hosts:
      - {name: pi1, kind: ssh, roles: [server]}
  lab:loadtest:
    step: One
`, `# My lab.
config:
  lab:infra:
    network: {subnet: 192.168.1.0/24} # at home
    hosts:
      - {name: pi1, kind: ssh, roles: [server]}
    cluster:
      distribution: k3s
      version: v1.36.4+k3s1
      sha256:
        amd64: aa
        arm64: bb
  lab:loadtest:
    step: One
`},
		{"an older pin is replaced, in its place", `config:
  lab:infra:
    cluster:
      distribution: k3s
      version: v1.35.2+k3s1 # the first that worked
      sha256: {amd64: old}
      disable: [traefik]
`, `config:
  lab:infra:
    cluster:
      distribution: k3s
      version: v1.36.4+k3s1 # the first that worked
      sha256:
        amd64: aa
        arm64: bb
      disable: [traefik]
`},
		{"images have sums where the stack names them", `config:
  lab:infra:
    cluster: {distribution: none, images: {path: "images-{arch}.tar.zst"}}
`, `config:
  lab:infra:
    cluster: {distribution: k3s, images: {path: "images-{arch}.tar.zst", sha256: {amd64: cc, arm64: dd}}, version: v1.36.4+k3s1, sha256: {amd64: aa, arm64: bb}}
`},
		{"an empty file becomes one", "", `config:
  lab:infra:
    cluster:
      distribution: k3s
      version: v1.36.4+k3s1
      sha256:
        amd64: aa
        arm64: bb
`},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, err := WritePin(row.stack, p)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Error(diff)
			}
			if again, err := WritePin(got, p); err != nil || again != got {
				t.Errorf("pinned again: %v\n%s", err, cmp.Diff(got, again))
			}
		})
	}
}

func TestWritePinRefuses(t *testing.T) {
	for _, row := range []struct{ name, stack, want string }{
		{"another distribution", "config: {lab:infra: {cluster: {distribution: labkube}}}", "the stack's cluster is labkube"},
		{"a section that is no mapping", "config: {lab:infra: [a]}", "lab:infra is no mapping"},
		{"a file that is no mapping", "- a", "no mapping"},
		{"what is no YAML", "a: [", "read the stack's file"},
	} {
		if _, err := WritePin(row.stack, Pin{}); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", row.name, err, row.want)
		}
	}
}
