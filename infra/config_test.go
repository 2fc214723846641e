package infra

import (
	"slices"
	"testing"

	"lab/config"
	"lab/config/configtest"
)

func TestRejectedConfigsSayWhatToFix(t *testing.T) {
	configtest.Rejected(t, 20, func(raw []byte) []config.Problem {
		_, problems := LoadConfig(raw)
		return problems
	})
}

// stackConfig is lab:infra of a stack in the repository.
func stackConfig(t *testing.T, stack string) Config {
	t.Helper()
	c, problems := LoadConfig(configtest.Section(t, stack, "lab:infra"))
	if err := config.Error(problems, "Pulumi."+stack+".yaml"); err != nil {
		t.Fatal(err)
	}
	return c
}

// singleMachine is the stack local without its cluster and the machines of that.
func singleMachine(t *testing.T) Config {
	t.Helper()
	c, problems := LoadConfig(configtest.SingleMachine(t))
	if err := config.Error(problems, "Pulumi.local.yaml"); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestStacksOfTheRepositoryAreAccepted(t *testing.T) {
	for stack, kind := range map[string]string{"local": KindNspawn, "lab": KindLibvirt, "pi": KindSSH} {
		if c := stackConfig(t, stack); c.Kind() != kind {
			t.Errorf("stack %s: kind %s, want %s", stack, c.Kind(), kind)
		}
	}
}

// Two of the stack local's machines never work at the same time: the app's and the
// nodes that run its pods. A server without pods hardly works at all.
func TestTheCapsOfTheMachinesThatWorkFitASmallMachine(t *testing.T) {
	for row, idle := range map[string][]string{"single machine": {RoleServer, RoleAgent}, "cluster": {RoleServer, RoleApp}} {
		var cpus float64
		for _, h := range stackConfig(t, "local").Hosts {
			if !slices.ContainsFunc(h.Roles, func(role string) bool { return slices.Contains(idle, role) }) {
				cpus += h.CPUs
			}
		}
		if cpus > 2 {
			t.Errorf("row %s: caps of %g CPUs work, above the 2 of a small machine", row, cpus)
		}
	}
}
