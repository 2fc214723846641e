package workloads

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"lab/config"
	"lab/config/configtest"
)

func TestRejectedConfigsSayWhatToFix(t *testing.T) {
	configtest.Rejected(t, 8, func(raw []byte) []config.Problem {
		_, problems := LoadConfig(raw, 100)
		return problems
	})
}

// stackConfig is lab:workloads of the stack local.
func stackConfig(t *testing.T) Config {
	t.Helper()
	c, problems := LoadConfig(configtest.Section(t, "local", "lab:workloads"), 100)
	if err := config.Error(problems, "Pulumi.local.yaml"); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTheDefaultsAreValidAndNoTextIsThem(t *testing.T) {
	c, problems := LoadConfig(nil, 100)
	if len(problems) > 0 || c != Defaults() {
		t.Errorf("%+v, problems %v", c, problems)
	}
}

func TestTheEnvironmentHasEverySettingAndNoExponent(t *testing.T) {
	c := Defaults()
	c.ThrottleRPS, c.ConnMaxAgeSeconds = 2_000_000, 60
	want := "LISTEN=:8080\nCONN_MAX_AGE_SECONDS=60\nQUERY_SHAPE=join\nCACHE_SECONDS=0\nPOOL_SIZE=20\nTHROTTLE_RPS=2000000\nWORK_ITERATIONS_PER_MS=12000"
	if diff := cmp.Diff(want, c.environment(8080)); diff != "" {
		t.Error(diff)
	}
}
