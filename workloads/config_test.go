package workloads

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lab/config"
	"lab/config/configtest"
)

// single and clustered are what a lab without a cluster and one with it give.
var (
	single    = Lab{MaxConnections: 100, Subnet: "10.77.0.0/24"}
	clustered = Lab{MaxConnections: 100, Cluster: true, Subnet: "10.77.0.0/24"}
)

func TestRejectedConfigsSayWhatToFix(t *testing.T) {
	configtest.Rejected(t, 8, func(raw []byte) []config.Problem {
		_, problems := LoadConfig(raw, single)
		return problems
	})
}

func TestRejectedConfigsOfAClusterSayWhatToFix(t *testing.T) {
	configtest.RejectedIn(t, "testdata/rejected/cluster", 8, func(raw []byte) []config.Problem {
		_, problems := LoadConfig(raw, clustered)
		return problems
	})
}

// stackConfig is lab:workloads of the stack local.
func stackConfig(t *testing.T) Config {
	t.Helper()
	c, problems := LoadConfig(configtest.Section(t, "local", "lab:workloads"), single)
	if err := config.Error(problems, "Pulumi.local.yaml"); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTheDefaultsAreValidAndNoTextIsThem(t *testing.T) {
	c, problems := LoadConfig(nil, single)
	if len(problems) > 0 || !reflect.DeepEqual(c, Defaults()) {
		t.Errorf("%+v, problems %v", c, problems)
	}
}

// Every stack of the repository that has a cluster fits in its database.
func TestTheStacksWithAClusterFitInTheirDatabase(t *testing.T) {
	for _, stack := range []string{"lab", "pi", "local"} {
		_, problems := LoadConfig(configtest.Section(t, stack, "lab:workloads"), clustered)
		if err := config.Error(problems, stack); err != nil {
			t.Error(err)
		}
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

// The largest pool that the message offers is accepted, and one more is not, for
// any size of the cluster and of the database.
func TestTheConnectionBudgetIsExact(t *testing.T) {
	for _, row := range []struct{ web, worker, connections, pool int }{
		{6, 3, 100, 11},   // (100 − 5 − 5) / 8
		{6, 3, 1000, 123}, // (1000 − 5 − 5) / 8
		{2, 1, 100, 23},   // (100 − 3 − 5) / 4
		{10, 3, 100, 7},   // (100 − 5 − 5) / 12
		{88, 3, 100, 1},   // (100 − 5 − 5) / 90
	} {
		problems := func(pool int) []config.Problem {
			raw := fmt.Sprintf(`{"poolSize":%d,"web":{"maxReplicas":%d},"worker":{"maxReplicas":%d}}`, pool, row.web, row.worker)
			_, problems := LoadConfig([]byte(raw), Lab{MaxConnections: row.connections, Cluster: true, Subnet: clustered.Subnet})
			return problems
		}
		if found := problems(row.pool); len(found) > 0 {
			t.Errorf("%+v: %v", row, found)
		}
		found := problems(row.pool + 1)
		if len(found) != 1 || found[0].Path != "workloads.poolSize" || !strings.Contains(found[0].Fix, fmt.Sprintf("lower it to %d,", row.pool)) {
			t.Errorf("%+v: one more gives %v, want that it is lowered to %d", row, found, row.pool)
		}
	}
	_, problems := LoadConfig([]byte(`{"poolSize":1,"web":{"maxReplicas":89}}`), clustered)
	if len(problems) != 1 || strings.Contains(problems[0].Fix, "lower it to") {
		t.Errorf("no pool fits, but: %v", problems)
	}
}

func TestTheBudgetIsTheDemoWorkloadsOnACluster(t *testing.T) {
	for name, row := range map[string]struct {
		raw string
		lab Lab
	}{
		"without a cluster a pool of 20 fits":               {`{}`, single},
		"what another chart's pods hold is not known to us": {`{"chart":{"path":"charts/mine","url":"http://10.77.0.16:30080/"}}`, clustered},
	} {
		if _, problems := LoadConfig([]byte(row.raw), row.lab); len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
		}
	}
}

func TestAnyOtherChartIsByPathRepositoryOrOCI(t *testing.T) {
	for _, chart := range []string{
		`{"path":"charts/mine"}`,
		`{"path":"/srv/charts/mine-1.2.3.tgz","values":{"replicas":3}}`,
		`{"repo":"https://charts.example.org","name":"mine","version":"1.2.3"}`,
		`{"oci":"oci://registry.example.org/charts/mine","version":"v1.2.3-rc.1+build.5","url":"http://10.77.0.16:30080/path?x=1"}`,
	} {
		c, problems := LoadConfig([]byte(`{"chart":`+chart+`}`), clustered)
		if len(problems) > 0 || !c.Chart.Given() {
			t.Errorf("%s: given: %v, %v", chart, c.Chart.Given(), problems)
		}
	}
	if Defaults().Chart.Given() {
		t.Error("the defaults have another chart")
	}
}

// On machines with a cap, a container's limit has to be within the smallest one's.
func TestALimitAboveANodesCapIsRejected(t *testing.T) {
	for _, row := range []struct {
		name   string
		milli  int
		limits string
		want   []string
	}{
		{"whole machines", 0, "8000", nil},
		{"as much as the node has", 400, "400", nil},
		{"more", 400, "401", []string{"workloads.web.limitCpuMilli", "workloads.worker.limitCpuMilli"}},
	} {
		lab := clustered
		lab.NodeCPUMilli = row.milli
		_, problems := LoadConfig([]byte(`{"poolSize": 5, "web": {"limitCpuMilli": `+row.limits+`}, "worker": {"limitCpuMilli": `+row.limits+`}}`), lab)
		var got []string
		for _, p := range problems {
			got = append(got, p.Path)
			if want := "is above the cap of the smallest node, 400 (its containers could not start there)"; p.Rule != want {
				t.Errorf("%s: %q, want %q", row.name, p.Rule, want)
			}
		}
		if diff := cmp.Diff(row.want, got); diff != "" {
			t.Errorf("%s: %s", row.name, diff)
		}
	}
}
