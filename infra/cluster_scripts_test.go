package infra

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// bed is where a script of the cluster runs without a host: its folders are the
// test's, and what it would ask of the machine is asked of stand-ins.
type bed struct {
	t   *testing.T
	dir string
}

func newBed(t *testing.T) *bed {
	b := &bed{t, t.TempDir()}
	b.write("bin/ip", "#!/bin/sh\necho default via 192.168.1.1\n")
	b.write("bin/systemctl", "#!/bin/sh\nexit 1\n") // there is no such unit
	return b
}

func (b *bed) path(name string) string { return filepath.Join(b.dir, name) }

func (b *bed) write(name, text string) {
	b.t.Helper()
	if err := os.MkdirAll(filepath.Dir(b.path(name)), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(b.path(name), []byte(text), 0o755); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) read(name string) string {
	b.t.Helper()
	text, err := os.ReadFile(b.path(name))
	if err != nil && !os.IsNotExist(err) {
		b.t.Fatal(err)
	}
	return string(text)
}

// run runs text after the scripts named, as a host would, with these variables.
func (b *bed) run(variables map[string]string, text string, scripts ...string) (string, error) {
	b.t.Helper()
	all := map[string]string{
		"distribution": DistributionK3s, "home": b.path("home"), "program": "k3s", "etc": b.path("etc"), "data": b.path("data"),
		"unit": "lab-test-k3s.service", "kubeconfig": b.path("etc/k3s.yaml"), "lab_script": "test",
	}
	maps.Copy(all, variables)
	var s strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&s, "%s=%s\n", name, shellQuote(all[name]))
	}
	_, functions, found := strings.Cut(File("lib.sh"), "\n# install_packages")
	if !found {
		b.t.Fatal("lib.sh has no install_packages")
	}
	s.WriteString("set -Eeuo pipefail\nlog() { echo \"$*\" >&2; }\ntrap 'log \"status $? from: $BASH_COMMAND\"' ERR\n#" + functions + "\nlab_main() {\n" + clusterScript(scripts...) + text + "\n}\nlab_main </dev/null\nexit\n")
	cmd := exec.Command("bash", "-s")
	cmd.Stdin = strings.NewReader(s.String())
	cmd.Env = append(os.Environ(), "PATH="+b.path("bin")+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err == nil && strings.Contains(string(out), " from: ") {
		b.t.Errorf("it succeeds, but reports an error on its way: %s", out)
	}
	return string(out), err
}

// check runs it and compares: an empty want is success.
func (b *bed) check(name string, out string, err error, want string) {
	b.t.Helper()
	if (err == nil) != (want == "") || !strings.Contains(out, want) {
		b.t.Errorf("%s: %v, %q; want %q", name, err, out, want)
	}
}

func TestUpgradesGoOneMinorVersionAtATime(t *testing.T) {
	b := newBed(t)
	for _, row := range []struct{ from, to, want string }{
		{"", "v1.36.4+k3s1", ""},
		{"v1.36.4+k3s1", "v1.36.4+k3s1", ""},
		{"v1.36.4+k3s1", "v1.36.3+k3s2", ""}, // of a patch, the way back is open
		{"v1.35.9+k3s1", "v1.36.4+k3s1", ""},
		{"v1.34.9+k3s1", "v1.36.4+k3s1", "skips a minor version: go to v1.35 first; nothing was touched"},
		{"v1.9.9+k3s1", "v1.36.4+k3s1", "go to v1.10 first"},
		{"v1.36.4+k3s1", "v1.35.9+k3s1", "v1.35.9+k3s1 is older"},
	} {
		out, err := b.run(nil, fmt.Sprintf("check_step '%s' '%s'", row.from, row.to))
		b.check(row.from+" to "+row.to, out, err, row.want)
	}
}

// kubectl puts a stand-in for the distribution in place: it writes down what it is
// asked, and answers what the rows of a case statement say.
func (b *bed) kubectl(cases string) {
	b.write("home/current/k3s", `#!/bin/sh
shift 3 # kubectl --kubeconfig FILE
printf '%s\n' "$*" >>'`+b.path("asked")+`'
case "$*" in
`+cases+`
"get --raw /readyz") echo ok ;;
"get node "*condition*) echo "True v1.36.4+k3s1 kubelet is ready" ;;
"get node agent-1 --ignore-not-found"*) echo node/agent-1 ;;
esac
`)
}

// changes are what the stand-in was asked but for questions.
func (b *bed) changes() string {
	var lines []string
	for line := range strings.Lines(b.read("asked")) {
		if !strings.HasPrefix(line, "get ") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return strings.Join(lines, "\n")
}

func TestMember(t *testing.T) {
	const drain = "drain agent-1 --ignore-daemonsets --delete-emptydir-data --timeout=60s"
	for _, row := range []struct {
		name, cases    string
		labels, taints string
		undo           string
		want, says     string
	}{
		{"a plain node is opened", "", "", "", "",
			"annotate node agent-1 --overwrite lab-binary=s1 lab-address=192.168.1.52 lab-labels=  lab-taints= \nuncordon agent-1", ""},
		{"labels and taints", "", "disk=nvme\nexample.org/rack=left", "dedicated=db:NoSchedule", "",
			"label node agent-1 --overwrite disk=nvme example.org/rack=left\ntaint node agent-1 --overwrite dedicated=db:NoSchedule\n" +
				"annotate node agent-1 --overwrite lab-binary=s1 lab-address=192.168.1.52 lab-labels=disk=nvme example.org/rack=left  lab-taints=dedicated=db:NoSchedule \nuncordon agent-1", ""},
		{"what is given no more goes", `*lab-labels*) echo "disk=hdd example.org/rack=left " ;;
*lab-taints*) echo "x:NoExecute y:NoExecute dedicated=db:NoSchedule " ;;
*spec.taints*) printf 'x:NoExecute\nother:NoSchedule\ndedicated:NoSchedule\n' ;;`, "disk=nvme", "dedicated=db:NoExecute", "",
			"label node agent-1 --overwrite disk=nvme example.org/rack-\ntaint node agent-1 --overwrite dedicated=db:NoExecute x:NoExecute- dedicated:NoSchedule-\n" +
				"annotate node agent-1 --overwrite lab-binary=s1 lab-address=192.168.1.52 lab-labels=disk=nvme  lab-taints=dedicated=db:NoExecute \nuncordon agent-1", ""},
		{"undone, it is drained and deleted", "", "", "", "1", drain + "\ndelete node agent-1", ""},
		{"undone, a dead node is deleted without a drain", `*condition*) echo "Unknown v1.36.4+k3s1 stopped posting" ;;`, "", "", "1", "delete node agent-1", "is not Ready"},
		{"undone without a cluster, nothing is", `"get --raw /readyz") exit 1 ;;`, "", "", "1", "", "there is no cluster"},
		{"undone when the cluster does not know it, nothing is", `*--ignore-not-found*) ;;`, "", "", "1", "", ""},
		{"undone, a node that can't be drained is not deleted", `drain*) echo "cannot evict"; exit 1 ;;`, "", "", "1", drain, "cannot evict"},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := newBed(t)
			b.kubectl(row.cases)
			variables := map[string]string{"node": "agent-1", "address": "192.168.1.52", "version": "v1.36.4+k3s1", "sum": "s1", "labels": row.labels, "taints": row.taints, "drain_seconds": "60"}
			if row.undo != "" {
				variables["lab_undo"] = row.undo
			}
			out, err := b.run(variables, "", "cluster-member.sh")
			if fails := strings.Contains(row.name, "can't be drained"); (err != nil) != fails || !strings.Contains(out, row.says) {
				t.Errorf("%v, %q; want %q", err, out, row.says)
			}
			if got := b.changes(); strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(row.want), " ") {
				t.Errorf("it asked for\n%s\nwant\n%s", got, row.want)
			}
		})
	}
}

func TestDrainBeforeAnUpgrade(t *testing.T) {
	const nodes = `"get nodes --no-headers") echo "server Ready control-plane 5d v1"; echo "agent-1 Ready <none> 5d v1" ;;`
	for _, row := range []struct {
		name, cases, node string
		cluster           bool
		asked             string
		want              string
	}{
		{"there is no cluster yet", "", "agent-1", false, "", ""},
		{"the node joins for the first time", "*--ignore-not-found*) ;;", "agent-1", true, "", ""},
		{"it runs the program already", "*lab-binary*) echo s2 ;;", "agent-1", true, "", ""},
		{"an earlier run was cut before it noted the program", "*lab-binary*) ;;", "agent-1", true, "", ""},
		{"another program comes", "*lab-binary*) echo s1 ;;\n" + nodes, "agent-1", true, "drain agent-1", ""},
		{"no other node could take the pods", `*lab-binary*) echo s1 ;;
"get nodes --no-headers") echo "server NotReady control-plane 5d v1"; echo "agent-1 Ready <none> 5d v1" ;;`, "agent-1", true, "", ""},
		{"it is where it was", "*lab-address*) echo 192.168.1.52 ;;\n*lab-binary*) echo s2 ;;", "agent-1", true, "", ""},
		{"its machine is another one", "*lab-address*) echo 192.168.1.53 ;;\n*lab-binary*) echo s1 ;;\n" + nodes, "agent-1", true, "delete node agent-1", ""},
		{"it is dead", "*lab-binary*) echo s1 ;;\n*condition*) echo 'Unknown v1 stopped posting' ;;\n" + nodes, "agent-1", true, "", ""},
		{"the server itself is down", `"get --raw /readyz") exit 1 ;;`, "server", true, "", ""},
		{"the API is down", `"get --raw /readyz") exit 1 ;;`, "agent-1", true, "", "agent-1 can't be drained"},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := newBed(t)
			if row.cluster {
				b.kubectl(row.cases)
			}
			out, err := b.run(map[string]string{"node": row.node, "self": "server", "address": "192.168.1.52", "sum": "s2", "drain_seconds": "60"}, "", "cluster-drain.sh")
			b.check("drain", out, err, row.want)
			if got, _, _ := strings.Cut(b.changes(), " --"); got != row.asked {
				t.Errorf("it asked for %q, want %q: %s", got, row.asked, out)
			}
		})
	}
}

func TestKubeconfigIsPrintedWhenEveryNodeIsReady(t *testing.T) {
	b := newBed(t)
	b.kubectl("")
	b.write("etc/k3s.yaml", "the kubeconfig\n")
	out, err := b.run(map[string]string{"nodes": "server agent-1", "version": "v1.36.4+k3s1"}, "", "cluster-kubeconfig.sh")
	if err != nil || out != "the kubeconfig\n" {
		t.Errorf("%q, %v", out, err)
	}
}

func TestCAHashIsReadFromTheServersToken(t *testing.T) {
	b := newBed(t)
	b.write("data/server/node-token", "K10"+mockHash+"::server:secret\n")
	if out, err := b.run(nil, "", "cluster-ca.sh"); err != nil || out != mockHash+"\n" {
		t.Errorf("%q, %v", out, err)
	}
	b.write("data/server/node-token", "secret\n")
	if out, err := b.run(nil, "", "cluster-ca.sh"); err == nil || strings.Contains(out, "secret") {
		t.Errorf("of a short token: %q, %v", out, err)
	}
}

func TestANodeIsReadyOfTheRightVersionOnly(t *testing.T) {
	b := newBed(t)
	for _, row := range []struct {
		answer, version string
		ready           bool
	}{
		{"True v1.36.4+k3s1 kubelet is ready", "v1.36.4+k3s1", true},
		{"True v1.36.4+k3s1 kubelet is ready", "", true},
		{"True v1.35.9+k3s1 kubelet is ready", "v1.36.4+k3s1", false},
		{"False v1.36.4+k3s1 no CNI", "v1.36.4+k3s1", false},
		{"Unknown v1.36.4+k3s1 stopped posting", "", false},
		{"", "", false},
	} {
		b.kubectl(fmt.Sprintf("*) echo %s; exit ;;", shellQuote(row.answer)))
		out, err := b.run(nil, "node_is_ready server "+shellQuote(row.version))
		if (err == nil) != row.ready {
			t.Errorf("%q, wanted %q: %v, %s", row.answer, row.version, err, out)
		}
	}
}

// A server's token is what its data can be read with; only what the node was given
// decides whether it starts again.
func TestTokensAreNotWrittenOver(t *testing.T) {
	b := newBed(t)
	node := map[string]string{"sum": "s1", "node": "server"}
	keep := func(token string) (string, error) {
		// mode and owner need root: the test's own
		return b.run(node, `write_if_changed() { mkdir -p "$(dirname "$1")"; printf '%s\n' "$4" >"$1"; }
keep_token "token: `+token+`"`, "cluster-node.sh")
	}
	for _, row := range []struct{ token, want string }{
		{"one", ""}, {"one", ""}, {"two", "another token than the stack's state"},
	} {
		out, err := keep(row.token)
		b.check(row.token, out, err, row.want)
		if strings.Contains(out, "token: ") {
			t.Errorf("a token is shown: %q", out)
		}
	}
	if got := b.read("etc/config.yaml.d/10-lab-token.yaml"); got != "token: one\n" {
		t.Errorf("the file holds %q", got)
	}
}

func TestWhatAContainersKubeletKeepsFromPods(t *testing.T) {
	b := newBed(t)
	for _, row := range []struct{ total, cap, kept, want string }{
		{"2000", "500", "50", "1550"}, {"2000", "2000", "50", "50"}, {"2000", "4000", "50", "50"},
	} {
		out, err := b.run(map[string]string{"sum": "s1"}, fmt.Sprintf("beyond_cap %s %s %s", row.total, row.cap, row.kept), "cluster-node.sh")
		if err != nil || strings.TrimSpace(out) != row.want {
			t.Errorf("%+v: %q, %v", row, out, err)
		}
	}
}

func TestResolver(t *testing.T) {
	b := newBed(t)
	out, err := b.run(map[string]string{"sum": "s1", "nameservers": nameserverLines([]string{"192.168.1.1", "192.168.1.2"})}, "resolver", "cluster-node.sh")
	if err != nil || out != "nameserver 192.168.1.1\nnameserver 192.168.1.2\n" {
		t.Errorf("%q, %v", out, err)
	}
	out, err = b.run(map[string]string{"sum": "s1", "nameservers": ""}, "resolver", "cluster-node.sh")
	if err != nil || !strings.Contains(out, "nameserver ") || strings.Contains(out, "nameserver 127.") {
		t.Errorf("the host's own: %q, %v", out, err)
	}
}
