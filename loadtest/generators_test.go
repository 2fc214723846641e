package loadtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lab/infra"
	"lab/loadtest/plan"
	"lab/workloads"
)

// secondGenerator gives the stack another, weaker load generator.
func secondGenerator(c *infra.Config, _ *workloads.Config) {
	c.Hosts = append(c.Hosts, infra.HostConfig{Name: "loadgen2", Kind: infra.KindNspawn, Roles: []string{infra.RoleLoadgen}, CPUs: 0.25, MemoryMiB: 256})
}

func TestTwoGeneratorsDeclareTheSameInPreviewAndUpdate(t *testing.T) {
	one := &mocks{sha256: "s1", result: holds(t)}
	declare(t, stackConfig(t), one, unchanged)
	preview, up := &mocks{preview: true}, &mocks{sha256: "s1", result: holds(t)}
	declare(t, stackConfig(t), preview, secondGenerator)
	got := declare(t, stackConfig(t), up, secondGenerator)
	want := append(one.tree(), "command:remote:Command loadgen2-generator", "command:remote:Command loadgen2-sampler", "command:remote:CopyToRemote loadgen2-runner",
		"random:index/randomPassword:RandomPassword generator-secret")
	slices.Sort(want)
	for name, m := range map[string]*mocks{"preview": preview, "update": up} {
		if diff := cmp.Diff(want, m.tree()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if got["ceiling"] != ">=20" {
		t.Errorf("outputs %v", got)
	}
}

// What the lead is told and what the other one was set up with belong together, and
// the secret is shown nowhere.
func TestTheLeadKnowsTheFurtherGenerators(t *testing.T) {
	m := &mocks{sha256: "s1", result: holds(t)}
	known := declare(t, stackConfig(t), m, secondGenerator)
	_, rest, _ := strings.Cut(m.stdin(t, "load"), "\nplan='")
	text, _, closed := strings.Cut(rest, "'\n")
	if !closed {
		t.Fatal("the script has no plan")
	}
	p, err := plan.Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if p.Generator != "loadgen" || len(p.Further) != 1 || p.Further[0] != (plan.Further{Host: "loadgen2", Orders: "10.77.0.16:9108"}) || !slices.Equal(p.Weights(), []int{400, 250}) {
		t.Errorf("generator %s, further %+v, weights %v", p.Generator, p.Further, p.Weights())
	}
	script := m.stdin(t, "loadgen2-generator")
	for _, want := range []string{"listen='10.77.0.16:9108'", "target='" + p.Target + "'", "secret='" + p.Secret + "'"} {
		if !strings.Contains(script, want) {
			t.Errorf("the generator's script has no %s", want)
		}
	}
	for _, d := range m.declared {
		for key, value := range d.Inputs {
			if key != "stdin" && strings.Contains(fmt.Sprint(value), p.Secret) {
				t.Errorf("%s shows the secret in %s", d.Name, key)
			}
		}
	}
	for name, value := range known {
		if strings.Contains(value, p.Secret) {
			t.Errorf("the output %s shows the secret", name)
		}
	}
}

// A host that stops being a further generator is cleaned up by its sampler's script.
func TestOnlyFurtherGeneratorsTakeOrders(t *testing.T) {
	m := &mocks{sha256: "s1", result: holds(t)}
	declare(t, stackConfig(t), m, secondGenerator)
	for name, want := range map[string]string{"app-sampler": "no", "loadgen-sampler": "no", "loadgen2-sampler": "yes"} {
		if !strings.Contains(m.stdin(t, name), "\norders='"+want+"'\n") {
			t.Errorf("%s: orders is not %s", name, want)
		}
	}
}

// Another generator can move the ceiling of a lab whose first was too weak.
func TestAnotherGeneratorMeasuresAgain(t *testing.T) {
	digest := func(change func(*infra.Config, *workloads.Config)) string {
		return declare(t, stackConfig(t), &mocks{sha256: "s1", result: holds(t)}, change)["inputsDigest"]
	}
	if digest(unchanged) == digest(secondGenerator) {
		t.Error("no new measurement")
	}
}
