package workloads

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"lab/golden"
	"lab/infra"
)

// nodes are hosts of a cluster, beside those of the stack local.
const nodes = `{"cluster":{"distribution":"labkube"},"hosts":[
	{"name":"app","kind":"nspawn","roles":["app"],"cpus":0.3,"memoryMiB":512},
	{"name":"database","kind":"nspawn","roles":["database"],"cpus":0.5,"memoryMiB":512},
	{"name":"cache","kind":"nspawn","roles":["cache"],"cpus":0.2,"memoryMiB":256},
	{"name":"edge","kind":"nspawn","roles":["edge"],"cpus":0.2,"memoryMiB":256},
	{"name":"loadgen","kind":"nspawn","roles":["loadgen"],"cpus":0.5,"memoryMiB":512},
	{"name":"server","kind":"nspawn","roles":["server"],"cpus":1,"memoryMiB":1024},
	{"name":"agent","kind":"nspawn","roles":["agent"],"cpus":0.5,"memoryMiB":768}]}`

// clusterMocks answer for the image and the cluster too.
type clusterMocks struct {
	imageMocks
	ca string // hash of the cluster's
}

func (m *clusterMocks) NewResource(args pulumi.MockResourceArgs) (string, resource.PropertyMap, error) {
	id, out, err := m.imageMocks.NewResource(args)
	// Known in a preview too, as on a stack that is up: the SDK's mock monitor can't
	// read a secret that is unknown.
	switch {
	case m.omits:
	case args.Name == "cluster-ca":
		out["stdout"] = resource.NewProperty(m.ca)
	case args.Name == "cluster-kubeconfig":
		out["stdout"] = resource.MakeSecret(resource.NewProperty(adminKubeconfig))
	case strings.HasPrefix(args.Name, "labkube-"):
		out["stdout"] = resource.NewProperty(`{"path":".lab/build/labkube.tar","sha256":"s1"}`)
	}
	return id, out, err
}

const adminKubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: default, cluster: {server: "https://127.0.0.1:6443", certificate-authority-data: YQ==}}]
contexts: [{name: default, context: {cluster: default, user: default}}]
current-context: default
users: [{name: default, user: {client-certificate-data: YQ==, client-key-data: YQ==}}]
`

func newClusterMocks(preview bool) *clusterMocks {
	return &clusterMocks{imageMocks{mocks: mocks{preview: preview, sha256: "s1"}, digests: map[string]string{"amd64": "sha256:a", "arm64": "sha256:a"}}, strings.Repeat("c", 64)}
}

// onCluster declares the workload on the nodes.
func onCluster(t *testing.T, c Config, m *clusterMocks) (*Workloads, string) {
	t.Helper()
	machines, problems := infra.LoadConfig([]byte(nodes))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	var w *Workloads
	digest := on(t, machines, m, m.preview, func(ctx *pulumi.Context, in *infra.Infra) (digest pulumi.StringOutput, err error) {
		if w, err = New(ctx, c, in); err != nil {
			return digest, err
		}
		return w.Digest, nil
	})
	return w, digest
}

func TestWhatTheReleaseIsMadeOf(t *testing.T) {
	preview, up := newClusterMocks(true), newClusterMocks(false)
	onCluster(t, clusterConfig(t, `{"poolSize":10}`), preview)
	onCluster(t, clusterConfig(t, `{"poolSize":10}`), up)
	want := []string{
		"command:local:Command image-amd64", "command:remote:Command agent-image", "command:remote:Command app-units",
		"command:remote:Command released", "command:remote:Command server-image",
		"command:remote:CopyToRemote agent-image-app", "command:remote:CopyToRemote server-image-app",
		"kubernetes:core/v1:Namespace lab", "kubernetes:core/v1:Secret app-credentials", "kubernetes:helm.sh/v3:Release app",
		"lab:workloads:Image image", "pulumi:providers:kubernetes kubernetes",
	}
	for name, m := range map[string]*clusterMocks{"preview": preview, "update": up} {
		if diff := cmp.Diff(strings.Join(want, "\n"), strings.ReplaceAll(strings.Join(m.tree(), "\n"), "arm64", "amd64")); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	omits := newClusterMocks(false)
	omits.omits = true
	onCluster(t, clusterConfig(t, `{"poolSize":10}`), omits) // which must not fail
}

// What the plugin is given, by resource: tools/pulumi-kubernetes compares the names
// with the plugin's schema.
func TestWhatThePluginIsGiven(t *testing.T) {
	var lines []string
	for _, raw := range []string{
		`{"poolSize":10}`,
		`{"chart":{"repo":"https://charts.example.org","name":"mine","version":"1.2.3","values":{"a":1}}}`,
	} {
		m := newClusterMocks(false)
		onCluster(t, clusterConfig(t, raw), m)
		for _, d := range m.declared {
			if !strings.Contains(d.TypeToken, "kubernetes") {
				continue
			}
			if got := d.RegisterRPC.GetVersion(); got != kubernetesPlugin {
				t.Errorf("%s is of the plugin's version %q, want %s", d.Name, got, kubernetesPlugin)
			}
			for key := range d.Inputs {
				lines = append(lines, d.TypeToken+" "+string(key))
			}
		}
	}
	slices.Sort(lines)
	golden.Check(t, "testdata/plugin-inputs", strings.Join(slices.Compact(lines), "\n")+"\n")
}

func TestTheToolchainBuildsThePluginThatIsAskedFor(t *testing.T) {
	script, err := os.ReadFile("../scripts/kubernetes-plugin.sh")
	if err != nil || !strings.Contains(string(script), "\nversion="+kubernetesPlugin+"\n") {
		t.Errorf("%v; scripts/kubernetes-plugin.sh builds another version than %s", err, kubernetesPlugin)
	}
}

// A namespace on a cluster that is gone can't be deleted, and whoever destroys a lab
// does not want to wait for it.
func TestWhatIsInTheClusterGoesWithItsServer(t *testing.T) {
	m := newClusterMocks(false)
	onCluster(t, clusterConfig(t, `{"poolSize":10}`), m)
	for _, name := range []string{"lab", "app-credentials", "app"} {
		d := m.of(t, "kubernetes:", name)
		if got := d.RegisterRPC.GetDeletedWith(); !strings.HasSuffix(got, "command:local:Command::server") {
			t.Errorf("%s is deleted with %q, want the server's machine", name, got)
		}
		if !strings.Contains(d.Provider, "pulumi:providers:kubernetes::kubernetes") {
			t.Errorf("%s is of the provider %q, want the explicit one", name, d.Provider)
		}
	}
}

// of finds a resource by what its type begins with: a host may have the same name.
func (m *mocks) of(t *testing.T, token, name string) pulumi.MockResourceArgs {
	t.Helper()
	for _, d := range m.declared {
		if d.Name == name && strings.HasPrefix(d.TypeToken, token) {
			return d
		}
	}
	t.Fatalf("%s %s was not declared", token, name)
	return pulumi.MockResourceArgs{}
}

// The cluster is another one when its CA is: then all that is in it is made again. A
// new kubeconfig alone is no reason.
func TestTheClusterIsKnownByItsCA(t *testing.T) {
	identifier := func(ca string) string {
		m := newClusterMocks(false)
		m.ca = strings.Repeat(ca, 64)
		onCluster(t, clusterConfig(t, `{"poolSize":10}`), m)
		return m.of(t, "pulumi:providers:", "kubernetes").Inputs["clusterIdentifier"].StringValue()
	}
	if a, again, b := identifier("a"), identifier("a"), identifier("b"); a != again || a == b || a == "" {
		t.Errorf("identifiers %q, %q of the same CA, and %q of another", a, again, b)
	}
}

func TestTheCredentialsAreSecretAndNotInTheRelease(t *testing.T) {
	m := newClusterMocks(false)
	onCluster(t, clusterConfig(t, `{"poolSize":10}`), m)
	if data := m.of(t, "kubernetes:core", "app-credentials").Inputs["stringData"]; !data.IsSecret() {
		t.Errorf("stringData is not secret: %v", data)
	}
	release := m.of(t, "kubernetes:helm", "app").Inputs
	if text := fmt.Sprint(release); strings.Contains(text, "topsecretpassword") {
		t.Errorf("the release has a password: %s", text)
	}
	rollout := release["values"].ObjectValue()["rollout"].ObjectValue()
	if len(rollout["credentials"].StringValue()) != 16 || rollout["image"].StringValue() == "" {
		t.Errorf("pods are not replaced when the image or the credentials change: %v", rollout)
	}
}

func TestTheReleasesDigestAndItsCheckChangeWithWhatMovesTheCeiling(t *testing.T) {
	look := func(raw, image string) (digest, triggers string) {
		m := newClusterMocks(false)
		m.digests = map[string]string{"amd64": image, "arm64": image}
		_, digest = onCluster(t, clusterConfig(t, raw), m)
		return digest, fmt.Sprint(m.find(t, "released").Inputs["triggers"])
	}
	digest, triggers := look(`{"poolSize":10}`, "sha256:a")
	if again, same := look(`{"poolSize":10}`, "sha256:a"); again != digest || same != triggers || digest == "" {
		t.Errorf("nothing changed, but %s became %s, %s became %s", digest, again, triggers, same)
	}
	for _, row := range []struct{ name, raw, image string }{
		{"the image", `{"poolSize":10}`, "sha256:b"},
		{"a knob", `{"poolSize":9}`, "sha256:a"},
		{"the autoscaler's maximum", `{"poolSize":10,"web":{"maxReplicas":5}}`, "sha256:a"},
		{"another chart", `{"chart":{"repo":"https://charts.example.org","name":"mine","version":"1.2.3"}}`, "sha256:a"},
		{"its values", `{"chart":{"repo":"https://charts.example.org","name":"mine","version":"1.2.3","values":{"a":1}}}`, "sha256:a"},
	} {
		if d, tr := look(row.raw, row.image); d == digest || tr == triggers {
			t.Errorf("%s changed; digest changed: %v, triggers changed: %v; want both", row.name, d != digest, tr != triggers)
		}
	}
}

func TestAnotherChartHasNoImageAndItsOwnAddress(t *testing.T) {
	m := newClusterMocks(false)
	w, _ := onCluster(t, clusterConfig(t, `{"chart":{"oci":"oci://registry.example.org/mine","version":"1.2.3","url":"http://10.77.0.16:31000"}}`), m)
	if tree := strings.Join(m.tree(), "\n"); strings.Contains(tree, "Image") {
		t.Errorf("the demo workload's image is made:\n%s", tree)
	}
	release := m.of(t, "kubernetes:helm", "app").Inputs
	if got := release["chart"].StringValue() + " " + release["version"].StringValue(); got != "oci://registry.example.org/mine 1.2.3" {
		t.Errorf("the chart is %s", got)
	}
	if w.LabURL != "http://10.77.0.16:31000" {
		t.Errorf("loaded is %s", w.LabURL)
	}
}

func TestAnotherChartReplacesTheRelease(t *testing.T) {
	m := newClusterMocks(false)
	onCluster(t, clusterConfig(t, `{"poolSize":10}`), m)
	rpc := m.of(t, "kubernetes:helm", "app").RegisterRPC
	if got, want := rpc.GetReplaceOnChanges(), []string{"chart", "repositoryOpts"}; !slices.Equal(got, want) || !rpc.GetDeleteBeforeReplace() {
		t.Errorf("replaced when %v change, the old one deleted first: %v; want %v, true", got, rpc.GetDeleteBeforeReplace(), want)
	}
}

// A unit that were deleted would go at the end of the update, after the load test.
func TestTheAppsHostIsStoppedBeforeTheRelease(t *testing.T) {
	m := newClusterMocks(false)
	onCluster(t, clusterConfig(t, `{"poolSize":10}`), m)
	if script := m.find(t, "app-units").Inputs["stdin"].SecretValue().Element.StringValue(); !strings.Contains(script, "disable --now") {
		t.Error("app-units does not stop the units")
	}
	var after []string
	for _, urn := range m.of(t, "kubernetes:helm", "app").RegisterRPC.GetDependencies() {
		after = append(after, urn[strings.LastIndex(urn, ":")+1:])
	}
	for _, want := range []string{"app-units", "app-credentials", "lab", "agent-image"} {
		if !slices.Contains(after, want) {
			t.Errorf("the release does not wait for %s: %v", want, after)
		}
	}
}
