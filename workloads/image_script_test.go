package workloads

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lab/infra"
)

// node is a folder in the place of a machine's /var/lib and /run, with stand-ins of
// what a distribution has there: they know the images of the archives that they are
// told to import.
type node struct{ dir string }

func newNode(t *testing.T) node {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a mount namespace takes root")
	}
	n := node{t.TempDir()}
	for _, dir := range []string{"bin", "lib", "run"} {
		if err := os.Mkdir(filepath.Join(n.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const imported = `{ [ -s "$4" ] && tee -a "$STATE/images" <"$4"; }`
	n.write(t, "bin/k3s", `#!/bin/bash
case "$1 $2 $3" in
"ctr images import") `+imported+` ;;
"ctr images list") cat "$STATE/images" ;;
*) exit 64 ;;
esac`)
	n.write(t, "bin/labkube", `#!/bin/bash
[ "$1" = import ] || exit 64
set -- . . . "$2"
`+imported)
	n.write(t, "bin/ctr", `#!/bin/bash
[ "$*" = "--address /run/labkube/containerd/containerd.sock --namespace k8s.io images list --quiet" ] || exit 64
cat "$STATE/images"`)
	return n
}

func (n node) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(n.dir, name), []byte(text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

// bring runs the script as a host does, with the folder's parts in their places.
func (n node) bring(distribution, reference string) (output string, err error) {
	script := fmt.Sprintf("lab_script=image\nlab_timeout=60\narchive=%s/archive\ndistribution=%s\nreference=%s\n%s\nlab_main() {\n%s\n}\nlab_main </dev/null\nexit\n",
		n.dir, distribution, reference, infra.File("lib.sh"), text("image.sh"))
	cmd := exec.Command("unshare", "--mount", "sh", "-c", `mount --bind "$STATE/lib" /var/lib && mount --bind "$STATE/run" /run && exec bash -s`)
	cmd.Stdin = strings.NewReader(script)
	cmd.Env = append(os.Environ(), "STATE="+n.dir, "PATH="+filepath.Join(n.dir, "bin")+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestANodeImportsTheImageAndKeepsItForItsStart(t *testing.T) {
	for distribution, folder := range map[string]string{"k3s": "rancher/k3s/agent/images", "labkube": "labkube/agent/images"} {
		t.Run(distribution, func(t *testing.T) {
			n := newNode(t)
			for _, reference := range []string{"lab.local/app:one", "lab.local/app:one", "lab.local/app:two"} {
				n.write(t, "archive", reference)
				if out, err := n.bring(distribution, reference); err != nil || !strings.Contains(out, "has "+reference) {
					t.Fatalf("%v: %s", err, out)
				}
			}
			entries, err := os.ReadDir(filepath.Join(n.dir, "lib", folder))
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, e := range entries {
				names = append(names, e.Name())
			}
			if diff := cmp.Diff([]string{"lab-app.tar"}, names); diff != "" {
				t.Error(diff)
			}
			kept, err := os.ReadFile(filepath.Join(n.dir, "lib", folder, "lab-app.tar"))
			if err != nil || string(kept) != "lab.local/app:two\n" {
				t.Errorf("the node keeps %q, %v; want the newest", kept, err)
			}
		})
	}
}

func TestANodeThatCannotImportTheImageFails(t *testing.T) {
	n := newNode(t)
	n.write(t, "archive", "lab.local/app:one")
	n.write(t, "bin/k3s", "#!/bin/bash\necho 'no space left' >&2\nexit 1")
	if out, err := n.bring("k3s", "lab.local/app:one"); err == nil || !strings.Contains(out, "no space left") {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := n.bring("kind", "lab.local/app:one"); err == nil || !strings.Contains(out, "no distribution kind: want k3s or labkube") {
		t.Errorf("%v: %s", err, out)
	}
}
