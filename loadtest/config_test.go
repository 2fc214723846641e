package loadtest

import (
	"strings"
	"testing"

	"lab/config"
	"lab/config/configtest"
)

func TestRejectedConfigsSayWhatToFix(t *testing.T) {
	configtest.Rejected(t, 20, func(raw []byte) []config.Problem {
		_, problems := LoadConfig(raw, Lab{Generators: 1})
		return problems
	})
}

func TestWhatSeveralGeneratorsCannotShareIsRejected(t *testing.T) {
	configtest.RejectedIn(t, "testdata/rejected/two-generators", 2, func(raw []byte) []config.Problem {
		if _, problems := LoadConfig(raw, Lab{Generators: 1}); len(problems) > 0 {
			t.Errorf("one generator: %v", problems)
		}
		_, problems := LoadConfig(raw, Lab{Generators: 2})
		return problems
	})
}

// stackConfig is lab:loadtest of the stack local.
func stackConfig(t *testing.T) Config {
	t.Helper()
	c, problems := LoadConfig(configtest.Section(t, "local", "lab:loadtest"), Lab{Generators: 1, Single: true})
	if err := config.Error(problems, "Pulumi.local.yaml"); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestWithoutASectionTheReadsAreOfferedAlike(t *testing.T) {
	c, problems := LoadConfig(nil, Lab{Generators: 1})
	if len(problems) > 0 || len(c.Scenario.Endpoints) != 5 {
		t.Fatalf("%d endpoints, problems %v", len(c.Scenario.Endpoints), problems)
	}
	for _, e := range c.Scenario.Endpoints {
		if e.Weight != 1 || e.Method != "GET" || !strings.HasPrefix(e.Path, "/api/") {
			t.Errorf("endpoint %+v", e)
		}
	}
}

// Once an endpoint of a stack took what it did not say from a default one.
func TestAStacksEndpointsAreItsOwn(t *testing.T) {
	c, problems := LoadConfig([]byte(`{"scenario": {"endpoints": [{"name": "work", "path": "/work?ms=5", "weight": 2}]}}`), Lab{Generators: 1})
	if len(problems) > 0 || len(c.Scenario.Endpoints) != 1 {
		t.Fatalf("endpoints %+v, problems %v", c.Scenario.Endpoints, problems)
	}
	if e := c.Scenario.Endpoints[0]; e.Name != "work" || e.Path != "/work?ms=5" || e.Weight != 2 || e.Method != "GET" {
		t.Errorf("endpoint %+v", e)
	}
}
