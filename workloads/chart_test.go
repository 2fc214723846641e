package workloads

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lab/config"
)

// chartFolder is a project's folder with a chart, an archive and what is neither.
func chartFolder(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for path, text := range map[string]string{
		"charts/mine/Chart.yaml": "name: mine", "charts/mine/values.yaml": "a: 1", "charts/mine/templates/_helpers.tpl": "{{/* */}}",
		"charts/mine-1.2.3.tgz": "packed", "charts/mine.zip": "zip", "empty/README": "nothing",
	} {
		writeFile(t, filepath.Join(root, path), text)
	}
	return root
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestHelmIsAskedForTheChart(t *testing.T) {
	root := chartFolder(t)
	for raw, want := range map[string]helmChart{
		`{"chart":{"path":"charts/mine"}}`:                                                {chart: "charts/mine"},
		`{"chart":{"path":"charts/mine-1.2.3.tgz"}}`:                                      {chart: "charts/mine-1.2.3.tgz"},
		`{"chart":{"repo":"https://charts.example.org","name":"mine","version":"1.2.3"}}`: {chart: "mine", repo: "https://charts.example.org", version: "1.2.3"},
		`{"chart":{"oci":"oci://registry.example.org/mine","version":"1.2.3"}}`:           {chart: "oci://registry.example.org/mine", version: "1.2.3"},
	} {
		got, err := clusterConfig(t, raw).helmChart(root)
		if local := want.version == ""; err != nil || local != (got.digest != "") {
			t.Errorf("%s: %+v, %v; a digest is wanted: %v", raw, got, err, local)
		}
		if got.digest = ""; got != want {
			t.Errorf("%s: %+v, want %+v", raw, got, want)
		}
	}
	if got, err := clusterConfig(t, `{"poolSize":10}`).helmChart(".."); err != nil || got.chart != "workloads/chart" || got.digest == "" {
		t.Errorf("the demo workload's chart is %+v, %v", got, err)
	}
}

func TestAChartThatIsNotThereIsRefused(t *testing.T) {
	lab := clustered
	lab.Folder = chartFolder(t)
	for path, why := range map[string]string{
		"charts/none": "can't be read (no such file or directory)", "empty": "is a folder without a Chart.yaml", "charts/mine.zip": "is a file, and no .tgz",
		"charts/mine": "", "charts/mine-1.2.3.tgz": "",
	} {
		_, problems := LoadConfig([]byte(`{"chart":{"path":"`+path+`"}}`), lab)
		got := ""
		if err := config.Error(problems, "Pulumi.test.yaml"); err != nil {
			got = err.Error()
		}
		if want := fmt.Sprintf("workloads.chart.path: %q %s; give the path,", path, why); why == "" && got != "" || !strings.Contains(got, want) && why != "" {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

// The description is what tells the provider that a chart's files have changed: so
// every file of it counts, Helm's own names among them.
func TestTheReleasesDescriptionChangesWithEveryFileOfItsChart(t *testing.T) {
	c := clusterConfig(t, `{"chart":{"path":"charts/mine"}}`)
	root := chartFolder(t)
	seen := map[string]string{}
	look := func(change string) {
		t.Helper()
		chart, err := c.helmChart(root)
		if err != nil {
			t.Fatal(err)
		}
		if before, ok := seen[chart.description()]; ok {
			t.Errorf("%s: the description is that of %s", change, before)
		}
		seen[chart.description()] = change
	}
	look("nothing")
	err := filepath.WalkDir(filepath.Join(root, "charts", "mine"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			writeFile(t, path, "changed")
			look(filepath.Base(path))
		}
		return err
	})
	if err != nil || len(seen) != 4 {
		t.Errorf("%v; %d descriptions, want 4", err, len(seen))
	}
}
