package infra

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"lab/golden"
)

// clusterStack is the single machine of the stack local with a server and two agents beside it.
func clusterStack(t *testing.T, distribution string) Config {
	t.Helper()
	c := singleMachine(t)
	c.Cluster.Distribution = distribution
	if distribution == DistributionK3s {
		sum := strings.Repeat("a", 64)
		c.Cluster.Version, c.Cluster.Path, c.Cluster.SHA256 = "v1.36.4+k3s1", "k3s-{arch}", map[string]string{"amd64": sum, "arm64": sum}
	}
	for _, row := range []struct{ name, role string }{{"agent-1", RoleAgent}, {"server", RoleServer}, {"agent-2", RoleAgent}} {
		c.Hosts = append(c.Hosts, HostConfig{Name: row.name, Kind: KindNspawn, Roles: []string{row.role}, CPUs: 0.5, MemoryMiB: 1024})
	}
	if problems := c.problems(); len(problems) > 0 {
		t.Fatal(problems)
	}
	return c
}

// inProject makes the current folder one with the sources of labkube.
func inProject(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	for _, path := range []string{"go.mod", "tools/labkube/main.go", "scripts/labkube.sh", "scripts/labkube-bundle.sh"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path), []byte(path), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
}

// find is what was declared under a name.
func (m *mocks) find(t *testing.T, token, name string) pulumi.MockResourceArgs {
	t.Helper()
	for _, d := range m.declared {
		if d.TypeToken == token && d.Name == name {
			return d
		}
	}
	t.Fatalf("no %s %s was declared", token, name)
	return pulumi.MockResourceArgs{}
}

const remoteCommand = "command:remote:Command"

func plain(v resource.PropertyValue) string {
	if v.IsSecret() {
		v = v.SecretValue().Element
	}
	if !v.IsString() {
		return fmt.Sprint(v)
	}
	return v.StringValue()
}

func TestClustersInTheTree(t *testing.T) {
	for _, distribution := range []string{DistributionK3s, DistributionLabkube} {
		t.Run(distribution, func(t *testing.T) {
			c := clusterStack(t, distribution)
			trees, err := filepath.Abs("testdata/tree")
			if err != nil {
				t.Fatal(err)
			}
			inProject(t)
			preview, _, err := declare(c, true)
			if err != nil {
				t.Fatal(err)
			}
			up, in, err := declare(c, false)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(preview.tree(), up.tree()); diff != "" {
				t.Error(diff)
			}
			golden.Check(t, filepath.Join(trees, "local-"+distribution+".txt"), strings.ReplaceAll(strings.Join(up.tree(), "\n"), "labkube-arm64", "labkube-amd64")+"\n")
			var nodes []string
			for _, h := range in.Cluster.Nodes {
				nodes = append(nodes, h.Name)
			}
			if strings.Join(nodes, " ") != "server agent-1 agent-2" || in.Cluster.Server.Name != "server" {
				t.Errorf("nodes %v, server %s", nodes, in.Cluster.Server.Name)
			}
		})
	}
}

func TestLabkubeWithoutItsSources(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c := clusterStack(t, DistributionLabkube)
	t.Chdir(dir)
	if _, _, err := declare(c, true); err == nil || !strings.Contains(err.Error(), "set infra.cluster.distribution to k3s or none") {
		t.Error(err)
	}
}

// A node begins when the one before it is Ready, and none before every program is
// staged: a wrong sum stops before anything is replaced.
func TestNodesAreSetUpOneAfterAnother(t *testing.T) {
	m, _, err := declare(clusterStack(t, DistributionK3s), false)
	if err != nil {
		t.Fatal(err)
	}
	waits := func(name string) (urns []string) {
		for _, urn := range m.find(t, remoteCommand, name).RegisterRPC.GetDependencies() {
			urns = append(urns, urn[strings.LastIndex(urn, "::")+2:])
		}
		return urns
	}
	for _, row := range []struct{ name, after string }{
		{"server-drain", "server-stage"}, {"server-drain", "agent-1-stage"}, {"server-drain", "agent-2-stage"},
		{"server-node", "server-drain"}, {"server-member", "server-node"}, {"cluster-ca", "server-member"},
		{"agent-1-drain", "server-member"}, {"agent-1-node", "agent-1-drain"}, {"agent-1-node", "cluster-ca"}, {"agent-1-member", "agent-1-node"},
		{"agent-2-drain", "agent-1-member"}, {"agent-2-node", "agent-2-drain"}, {"cluster-kubeconfig", "agent-2-member"},
	} {
		if got := waits(row.name); !slices.Contains(got, row.after) {
			t.Errorf("%s waits for %v, want %s among them", row.name, got, row.after)
		}
	}
}

func TestTokensAndKubeconfigAreSecretAndTheFileIsOfItsOwn(t *testing.T) {
	m, in, err := declare(clusterStack(t, DistributionK3s), false)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ script, want string }{
		{"server-node", "\nagent_token='topsecretpassword'\n"},
		{"server-node", "\ntoken='topsecretpassword'\n"},
		{"agent-1-node", "\ntoken='K10" + mockHash + "::node:topsecretpassword'\n"},
	} {
		stdin := m.find(t, remoteCommand, row.script).Inputs["stdin"]
		if !stdin.IsSecret() || !strings.Contains(plain(stdin), row.want) {
			t.Errorf("%s does not get %q as a secret", row.script, row.want)
		}
	}
	if stdin := plain(m.find(t, remoteCommand, "agent-1-node").Inputs["stdin"]); strings.Contains(stdin, "agent_token=") {
		t.Error("an agent gets the servers' tokens")
	}
	read := m.find(t, remoteCommand, "cluster-kubeconfig")
	if !slices.Contains(read.RegisterRPC.GetAdditionalSecretOutputs(), "stdout") {
		t.Error("what the kubeconfig's script prints is not secret")
	}
	kept := m.find(t, "command:local:Command", "kubeconfig")
	stdin := kept.Inputs["stdin"]
	if !stdin.IsSecret() || !strings.Contains(plain(stdin), "server: https://127.77.0.17:6443") || !strings.Contains(plain(stdin), "current-context: lab-test") {
		t.Errorf("the kubeconfig's file gets %v", stdin)
	}
	if got := plain(kept.Inputs["create"]) + ", " + plain(kept.Inputs["delete"]); got != LabCLI+" kubeconfig write test, "+LabCLI+" kubeconfig remove test" {
		t.Error(got)
	}
	if in.Cluster.Kubeconfig.OutputState == nil {
		t.Error("no kubeconfig")
	}
	for _, d := range m.declared {
		for key, value := range d.Inputs {
			if key != "stdin" && strings.Contains(fmt.Sprint(value), "topsecretpassword") {
				t.Errorf("%s %s shows a token in %s", d.TypeToken, d.Name, key)
			}
		}
	}
}

// Another token is another cluster: nothing that changes may make a new one.
func TestTokensOutliveWhatChanges(t *testing.T) {
	m, _, err := declare(clusterStack(t, DistributionK3s), false)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"cluster-token", "cluster-agent-token"} {
		d := m.find(t, "random:index/randomPassword:RandomPassword", name)
		if got := d.RegisterRPC.GetIgnoreChanges(); !slices.Equal(got, []string{"*"}) {
			t.Errorf("%s ignores the changes of %v, want of all", name, got)
		}
	}
}

// A destroy needs no host that answers; a node taken out is drained and deleted, and
// its host freed.
func TestWhatIsUndoneAndWithWhom(t *testing.T) {
	m, _, err := declare(clusterStack(t, DistributionK3s), false)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		script, with string
		undone       bool
	}{
		{"server-node", "server", true}, {"agent-1-node", "agent-1", true}, {"agent-1-member", "server", true},
		{"server-member", "", false}, {"server-drain", "", false}, {"server-stage", "", false}, {"cluster-kubeconfig", "", false},
	} {
		d := m.find(t, remoteCommand, row.script)
		undo := ""
		if v, ok := d.Inputs["delete"]; ok {
			undo = plain(v)
		}
		if strings.HasPrefix(undo, "lab_undo=1 timeout ") != row.undone || !row.undone && undo != "" {
			t.Errorf("%s: undone by %q, want %v", row.script, undo, row.undone)
		}
		with := d.RegisterRPC.GetDeletedWith()
		if row.undone && !strings.HasSuffix(with, "command:local:Command::"+row.with) {
			t.Errorf("%s goes with %q, want the machine %s", row.script, with, row.with)
		}
		// A replacement would undo what it has just done.
		if triggers := d.Inputs["triggers"]; row.undone && (len(triggers.ArrayValue()) != 1 || !d.RegisterRPC.GetDeleteBeforeReplace()) {
			t.Errorf("%s is replaced for %v, want for another disk only, undone first", row.script, triggers)
		}
	}
}

func TestAnUpgradeRunsEveryScriptOfANodeAgain(t *testing.T) {
	inputs := func(change func(*Config)) map[string]string {
		c := clusterStack(t, DistributionK3s)
		change(&c)
		m, _, err := declare(c, false)
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]string{}
		for _, d := range m.declared {
			if d.TypeToken == remoteCommand {
				all[d.Name] = fmt.Sprint(plain(d.Inputs["stdin"]), d.Inputs["triggers"])
			}
		}
		return all
	}
	before := inputs(func(*Config) {})
	after := inputs(func(c *Config) {
		sum := strings.Repeat("b", 64)
		c.Cluster.Version, c.Cluster.SHA256 = "v1.36.5+k3s1", map[string]string{"amd64": sum, "arm64": sum}
	})
	for name := range before {
		service := !strings.HasPrefix(name, "server") && !strings.HasPrefix(name, "agent") && name != "cluster-kubeconfig"
		if (before[name] != after[name]) == service {
			t.Errorf("%s: changed %v", name, before[name] != after[name])
		}
	}
}

func TestUpWithoutSumsEndsBeforeAnythingIsDeclared(t *testing.T) {
	c := clusterStack(t, DistributionK3s)
	c.Cluster.SHA256 = nil
	m, _, err := declare(c, false)
	if err == nil || !strings.Contains(err.Error(), "run lab pin k3s v1.36.4+k3s1 --stack test") {
		t.Error(err)
	}
	for _, d := range m.declared {
		if d.TypeToken != "pulumi:pulumi:Stack" {
			t.Errorf("%s %s was declared", d.TypeToken, d.Name)
		}
	}
	if _, _, err := declare(c, true); err != nil {
		t.Errorf("a preview: %v", err)
	}
}

func TestTheOperatorReachesTheAPI(t *testing.T) {
	forwards := func(c Config) (to []string) {
		for _, f := range networkSpec(c, 1).Forwards {
			if strings.HasSuffix(f.To, ":6443") {
				to = append(to, f.Listen+" → "+f.To)
			}
		}
		return to
	}
	if got := forwards(clusterStack(t, DistributionK3s)); !slices.Equal(got, []string{"127.77.0.17:6443 → 10.77.0.17:6443"}) {
		t.Errorf("forwards %v", got)
	}
	if got := forwards(singleMachine(t)); got != nil {
		t.Errorf("forwards without a cluster %v", got)
	}
}
