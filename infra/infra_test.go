package infra

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"lab/golden"
)

// What the scripts of a cluster print.
const (
	mockHash       = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
	mockKubeconfig = `clusters: [{name: default, cluster: {server: "https://127.0.0.1:6443", certificate-authority-data: Q0E=}}]
users: [{name: default, user: {client-certificate-data: Q0VSVA==, client-key-data: S0VZ}}]
contexts: [{name: default, context: {cluster: default, user: default}}]
current-context: default`
)

// mocks answers as the plugins do, and keeps what was declared.
type mocks struct {
	mu       sync.Mutex
	preview  bool
	declared []pulumi.MockResourceArgs
}

func (m *mocks) NewResource(args pulumi.MockResourceArgs) (string, resource.PropertyMap, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.declared = append(m.declared, args)
	out := args.Inputs.Copy()
	switch args.TypeToken {
	// Known in a preview too, as on a stack that is up: the SDK's mock monitor can't
	// read a secret that is unknown ("malformed RPC secret").
	case "random:index/randomBytes:RandomBytes":
		out["base64"] = resource.MakeSecret(resource.NewProperty(seed))
	case "random:index/randomPassword:RandomPassword":
		out["result"] = resource.MakeSecret(resource.NewProperty("topsecretpassword"))
	case "command:remote:Command":
		switch args.Name {
		case "cluster-ca":
			out["stdout"] = resource.NewProperty(mockHash + "\n")
		case "cluster-kubeconfig":
			out["stdout"] = resource.MakeSecret(resource.NewProperty(mockKubeconfig))
		}
	case "command:local:Command":
		if strings.HasPrefix(args.Name, "labkube-") {
			out["stdout"] = resource.NewProperty(`{"path":".lab/build/labkube-amd64.tar","sha256":"s1"}`)
		} else if !m.preview {
			out["stdout"] = resource.NewProperty(`{"digest":"d1"}`)
		}
	}
	return args.Name + "-id", out, nil
}

func (m *mocks) Call(pulumi.MockCallArgs) (resource.PropertyMap, error) { return nil, nil }

// declare runs New over mocks.
func declare(c Config, preview bool) (*mocks, *Infra, error) {
	m, in := &mocks{preview: preview}, (*Infra)(nil)
	err := pulumi.RunErr(func(ctx *pulumi.Context) error {
		var err error
		in, err = New(ctx, c, 30080)
		return err
	}, pulumi.WithMocks("lab", "test", m), func(info *pulumi.RunInfo) { info.DryRun = preview })
	return m, in, err
}

func (m *mocks) tree() []string {
	var lines []string
	for _, d := range m.declared {
		parent := d.RegisterRPC.GetParent()
		lines = append(lines, fmt.Sprintf("%s %s < %s", d.TypeToken, d.Name, parent[strings.LastIndex(parent, "$")+1:]))
	}
	slices.Sort(lines)
	return lines
}

func TestEveryResourceHasItsPlaceInTheTree(t *testing.T) {
	for _, stack := range []string{"local", "lab", "pi"} {
		m, _, err := declare(stackConfig(t, stack), true)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range m.declared {
			orphan := d.RegisterRPC.GetParent() == "" || strings.Contains(d.RegisterRPC.GetParent(), "pulumi:pulumi:Stack")
			if orphan && d.TypeToken != "lab:infra:Infra" && d.TypeToken != "pulumi:pulumi:Stack" {
				t.Errorf("stack %s: %s %s has no parent", stack, d.TypeToken, d.Name)
			}
		}
		golden.Check(t, "testdata/tree/"+stack+".txt", strings.Join(m.tree(), "\n")+"\n")
	}
}

func TestPreviewAndUpdateDeclareTheSame(t *testing.T) {
	c := singleMachine(t)
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
	if got := in.Edge; got.URL != "http://127.77.0.14:8080" || got.LabURL != "http://10.77.0.14:80" {
		t.Errorf("edge at %s and %s", got.URL, got.LabURL)
	}
	if h := in.Database.Host; h.Name != "database" || h.Address != "10.77.0.12" || in.Database.Port != 5432 {
		t.Errorf("database on %s at %s:%d", h.Name, h.Address, in.Database.Port)
	}
	if hosts := in.ByRole(RoleLoadgen); len(hosts) != 1 || hosts[0] != in.Hosts[4] {
		t.Errorf("load generators: %v", hosts)
	}
}

func TestSecretsAreSecretAndOnlyInStandardInput(t *testing.T) {
	m, _, err := declare(singleMachine(t), false)
	if err != nil {
		t.Fatal(err)
	}
	machines, scripts := 0, 0
	for _, d := range m.declared {
		stdin := d.Inputs["stdin"]
		switch {
		case d.TypeToken == "command:remote:Command":
			scripts++
			if !stdin.IsSecret() {
				t.Errorf("script %s: standard input is not secret", d.Name)
			}
			if got := d.Inputs["create"].StringValue(); got != "timeout --kill-after=10 300 bash -s" {
				t.Errorf("script %s runs %q", d.Name, got)
			}
			connection := d.Inputs["connection"]
			secret := connection.IsSecret()
			if secret {
				connection = connection.SecretValue().Element
			}
			if fields := connection.ObjectValue(); !secret && !fields["privateKey"].IsSecret() || !strings.Contains(fmt.Sprint(fields["hostKey"]), "ssh-ed25519") {
				t.Errorf("script %s: the private key is not secret or no host key is pinned: %v", d.Name, fields["hostKey"])
			}
		case strings.HasPrefix(d.RegisterRPC.GetParent(), "urn:pulumi:test::lab::lab:infra:Infra$lab:infra:Host") && d.TypeToken == "command:local:Command":
			machines++
			if !stdin.IsSecret() || !d.RegisterRPC.GetDeleteBeforeReplace() {
				t.Errorf("machine %s: standard input secret %v, deleted before it is replaced %v, want both", d.Name, stdin.IsSecret(), d.RegisterRPC.GetDeleteBeforeReplace())
			}
		}
		for key, value := range d.Inputs {
			if key != "stdin" && strings.Contains(fmt.Sprint(value), "topsecretpassword") {
				t.Errorf("%s %s shows the password in %s", d.TypeToken, d.Name, key)
			}
		}
	}
	if machines != 5 || scripts != 3 {
		t.Errorf("%d machines and %d scripts, want 5 and 3", machines, scripts)
	}
}

func TestUpOfAPlannedKindEndsBeforeAnythingIsDeclared(t *testing.T) {
	for _, stack := range []string{"lab", "pi"} {
		c := stackConfig(t, stack)
		m, _, err := declare(c, false)
		if err == nil || !strings.Contains(err.Error(), "not available yet, nothing was touched") {
			t.Errorf("stack %s: %v", stack, err)
		}
		for _, d := range m.declared {
			if d.TypeToken != "pulumi:pulumi:Stack" {
				t.Errorf("stack %s: %s %s was declared", stack, d.TypeToken, d.Name)
			}
		}
	}
}

func TestDigestChangesWithWhatCanMoveTheCeiling(t *testing.T) {
	digest := func(change func(*Config)) string {
		c := singleMachine(t)
		change(&c)
		var got string
		err := pulumi.RunErr(func(ctx *pulumi.Context) error {
			in, err := New(ctx, c, 30080)
			if err != nil {
				return err
			}
			in.Digest.ApplyT(func(d string) string { got = d; return d })
			ctx.Export("digest", in.Digest)
			return nil
		}, pulumi.WithMocks("lab", "test", &mocks{}))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	before := digest(func(*Config) {})
	if digest(func(*Config) {}) != before {
		t.Error("nothing changed, but the digest did")
	}
	for name, change := range map[string]func(*Config){
		"a cap":            func(c *Config) { c.Hosts[0].CPUs = 0.25 },
		"a setting":        func(c *Config) { c.Postgres.MaxConnections = 50 },
		"a machine's size": func(c *Config) { c.Hosts[1].MemoryMiB = 1024 },
	} {
		if digest(change) == before {
			t.Errorf("%s changed, but the digest did not", name)
		}
	}
}

// The edge sends where the workload runs: to the host with the role app, or past it
// to every node that runs pods.
func TestTheEdgeSendsWhereTheWorkloadRuns(t *testing.T) {
	for _, row := range []struct {
		name    string
		change  func(*Config)
		want    []string
		retries string
	}{
		{"without a cluster", func(c *Config) { c.Cluster.Distribution = DistributionNone }, []string{"10.77.0.11:8080"}, ""},
		{"a cluster", func(*Config) {}, []string{"10.77.0.17:30111", "10.77.0.16:30111", "10.77.0.18:30111"}, "3"},
		{"a cluster, and no host for the app", func(c *Config) { c.Hosts[0].Roles = []string{"monitoring"} }, []string{"10.77.0.17:30111", "10.77.0.16:30111", "10.77.0.18:30111"}, "3"},
		{"Traefik on every node", func(c *Config) { c.Cluster.Traefik, c.Cluster.Disable = true, []string{"servicelb"} }, []string{"10.77.0.17:8000", "10.77.0.16:8000", "10.77.0.18:8000"}, "3"},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := clusterStack(t, DistributionK3s)
			row.change(&c)
			if problems := c.problems(); len(problems) > 0 {
				t.Fatal(problems)
			}
			for _, preview := range []bool{true, false} {
				m := &mocks{preview: preview}
				err := pulumi.RunErr(func(ctx *pulumi.Context) error {
					_, err := New(ctx, c, 30111)
					return err
				}, pulumi.WithMocks("lab", "test", m), func(info *pulumi.RunInfo) { info.DryRun = preview })
				if err != nil {
					t.Fatal(err)
				}
				stdin := plain(m.find(t, remoteCommand, "edge").Inputs["stdin"])
				var got []string
				for _, line := range strings.Split(stdin, "\n") {
					if server, found := strings.CutPrefix(line, "    server "); found && !strings.Contains(line, "backup") {
						got = append(got, strings.Fields(server)[0])
					}
				}
				if diff := cmp.Diff(row.want, got); diff != "" {
					t.Error(diff)
				}
				if !strings.Contains(stdin, "\nretries='"+row.retries+"'\n") {
					t.Errorf("retries are not %q", row.retries)
				}
			}
		})
	}
}
