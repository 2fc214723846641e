package workloads

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"lab/config/configtest"
	"lab/infra"
)

// mocks answers as the plugins do, and keeps what was declared.
type mocks struct {
	mu       sync.Mutex
	preview  bool
	sha256   string // of the binary
	declared []pulumi.MockResourceArgs
}

func (m *mocks) NewResource(args pulumi.MockResourceArgs) (string, resource.PropertyMap, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.declared = append(m.declared, args)
	out := args.Inputs.Copy()
	switch args.TypeToken {
	case "random:index/randomBytes:RandomBytes":
		out["base64"] = resource.MakeSecret(resource.NewProperty("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="))
	case "random:index/randomPassword:RandomPassword":
		out["result"] = resource.MakeSecret(resource.NewProperty("topsecretpassword"))
	case "command:local:Command":
		if !m.preview {
			out["stdout"] = resource.NewProperty(fmt.Sprintf(`{"path":".lab/build/app-amd64","sha256":%q}`, m.sha256))
		}
	}
	return args.Name + "-id", out, nil
}

func (m *mocks) Call(pulumi.MockCallArgs) (resource.PropertyMap, error) { return nil, nil }

// declare runs New on the stack local's machines. The digest is "" in a preview.
func declare(t *testing.T, c Config, m *mocks) (*Workloads, string) {
	t.Helper()
	var w *Workloads
	digest := onLocal(t, m, m.preview, func(ctx *pulumi.Context, in *infra.Infra) (digest pulumi.StringOutput, err error) {
		if w, err = New(ctx, c, in); err != nil {
			return digest, err
		}
		return w.Digest, nil
	})
	return w, digest
}

// onLocal declares something on the stack local's single machine and returns its digest,
// "" while that is unknown.
func onLocal(t *testing.T, m pulumi.MockResourceMonitor, preview bool, declare func(*pulumi.Context, *infra.Infra) (pulumi.StringOutput, error)) string {
	t.Helper()
	machines, problems := infra.LoadConfig(configtest.SingleMachine(t))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return on(t, machines, m, preview, declare)
}

// on is onLocal on other machines.
func on(t *testing.T, machines infra.Config, m pulumi.MockResourceMonitor, preview bool, declare func(*pulumi.Context, *infra.Infra) (pulumi.StringOutput, error)) string {
	t.Helper()
	var mu sync.Mutex
	var known string
	err := pulumi.RunErr(func(ctx *pulumi.Context) error {
		in, err := infra.New(ctx, machines, 30080)
		if err != nil {
			return err
		}
		digest, err := declare(ctx, in)
		if err != nil {
			return err
		}
		ctx.Export("digest", digest.ApplyT(func(d string) string {
			mu.Lock()
			defer mu.Unlock()
			known = d
			return d
		}))
		return nil
	}, pulumi.WithMocks("lab", "test", m), func(info *pulumi.RunInfo) { info.DryRun = preview })
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	return known
}

// tree is what hangs on the component.
func (m *mocks) tree() []string {
	var lines []string
	for _, d := range m.declared {
		if parent := d.RegisterRPC.GetParent(); strings.Contains(parent, "lab:workloads:Workloads") {
			lines = append(lines, d.TypeToken+" "+d.Name)
		}
	}
	slices.Sort(lines)
	return lines
}

func (m *mocks) find(t *testing.T, name string) pulumi.MockResourceArgs {
	t.Helper()
	for _, d := range m.declared {
		if d.Name == name {
			return d
		}
	}
	t.Fatalf("%s was not declared", name)
	return pulumi.MockResourceArgs{}
}

func TestPreviewAndUpdateDeclareTheSame(t *testing.T) {
	preview, up := &mocks{preview: true}, &mocks{sha256: "s1"}
	declare(t, stackConfig(t), preview)
	w, _ := declare(t, stackConfig(t), up)
	want := []string{"command:local:Command app-amd64", "command:remote:Command app-units", "command:remote:CopyToRemote app-app"}
	for name, m := range map[string]*mocks{"preview": preview, "update": up} {
		got := strings.ReplaceAll(strings.Join(m.tree(), "\n"), "arm64", "amd64")
		if diff := cmp.Diff(strings.Join(want, "\n"), got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if w.URL != "http://127.77.0.14:8080" || w.LabURL != "http://10.77.0.14:80" {
		t.Errorf("the workload is at %s and %s", w.URL, w.LabURL)
	}
}

func TestAnUpdateWhoseMockOmitsTheOutputsDoesNotFail(t *testing.T) {
	declare(t, stackConfig(t), &mocks{})
}

func TestCredentialsAreOnlyInSecretStandardInput(t *testing.T) {
	m := &mocks{sha256: "s1"}
	declare(t, stackConfig(t), m)
	units := m.find(t, "app-units")
	stdin := units.Inputs["stdin"]
	if !stdin.IsSecret() {
		t.Fatal("standard input is not secret")
	}
	text := stdin.SecretValue().Element.StringValue()
	for _, want := range []string{
		"database_url='postgres://app:topsecretpassword@10.77.0.12:5432/app?sslmode=disable'",
		"redis_url='redis://:topsecretpassword@10.77.0.13:6379/0'",
		"edge_url='http://10.77.0.14:80'",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the script does not get %s", want)
		}
	}
	for key, value := range units.Inputs {
		if key != "stdin" && strings.Contains(fmt.Sprint(value), "topsecretpassword") {
			t.Errorf("%s shows the password", key)
		}
	}
}

func TestDigestAndTriggersChangeWithEveryKnobAndTheBinary(t *testing.T) {
	look := func(sha256 string, change func(*Config)) (digest, triggers string) {
		c, m := stackConfig(t), &mocks{sha256: sha256}
		change(&c)
		_, digest = declare(t, c, m)
		return digest, fmt.Sprint(m.find(t, "app-units").Inputs["triggers"])
	}
	digest, triggers := look("s1", func(*Config) {})
	if again, same := look("s1", func(*Config) {}); again != digest || same != triggers || digest == "" {
		t.Errorf("nothing changed, but %s became %s, %s became %s", digest, again, triggers, same)
	}
	for _, row := range []struct {
		name, sha256 string
		change       func(*Config)
	}{
		{"the binary", "s2", func(*Config) {}},
		{"the connections' age", "s1", func(c *Config) { c.ConnMaxAgeSeconds = 30 }},
		{"the query shape", "s1", func(c *Config) { c.QueryShape = "subquery" }},
		{"the cache", "s1", func(c *Config) { c.CacheSeconds = 5 }},
		{"the pool", "s1", func(c *Config) { c.PoolSize = 5 }},
		{"the throttle", "s1", func(c *Config) { c.ThrottleRPS = 100 }},
		{"the fixed work", "s1", func(c *Config) { c.WorkIterationsPerMs = 1 }},
	} {
		if d, tr := look(row.sha256, row.change); d == digest || tr == triggers {
			t.Errorf("%s changed; digest changed: %v, triggers changed: %v; want both", row.name, d != digest, tr != triggers)
		}
	}
}
