package infra

import (
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

func TestStacksOfTheRepositoryAreAccepted(t *testing.T) {
	for stack, kind := range map[string]string{"local": KindNspawn, "lab": KindLibvirt, "pi": KindSSH} {
		if c := stackConfig(t, stack); c.Kind() != kind {
			t.Errorf("stack %s: kind %s, want %s", stack, c.Kind(), kind)
		}
	}
	var cpus float64
	for _, h := range stackConfig(t, "local").Hosts {
		cpus += h.CPUs
	}
	if cpus > 2 {
		t.Errorf("the caps of the stack local are %g CPUs in all, above the 2 of a small machine", cpus)
	}
}
