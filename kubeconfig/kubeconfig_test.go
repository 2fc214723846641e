package kubeconfig

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// onServer is what a server writes, of k3s and labkube alike.
const onServer = `apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: Q0E=
    server: https://127.0.0.1:6443
  name: default
contexts:
- context:
    cluster: default
    user: default
  name: default
current-context: default
kind: Config
preferences: {}
users:
- name: default
  user:
    client-certificate-data: Q0VSVA==
    client-key-data: S0VZ
`

const renamed = `apiVersion: v1
kind: Config
clusters:
  - name: lab-home
    cluster:
      server: https://192.168.1.51:6443
      certificate-authority-data: Q0E=
users:
  - name: lab-home
    user:
      client-certificate-data: Q0VSVA==
      client-key-data: S0VZ
contexts:
  - name: lab-home
    context:
      cluster: lab-home
      user: lab-home
current-context: lab-home
`

func TestRename(t *testing.T) {
	got, err := Rename(onServer, "lab-home", "https://192.168.1.51:6443")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(renamed, got); diff != "" {
		t.Error(diff)
	}
	if got, err := Rename("", "lab-home", "https://192.168.1.51:6443"); got != "" || err != nil {
		t.Errorf("no text became %q, %v", got, err)
	}
}

func TestRenameRefusesWhatIsNoClustersAndShowsNoKey(t *testing.T) {
	for _, row := range []struct{ name, text, want string }{
		{"two clusters", strings.Replace(onServer, "contexts:", "- name: more\ncontexts:", 1), "2 clusters"},
		{"no user", strings.Split(onServer, "users:")[0], "0 users"},
		{"no key", strings.Replace(onServer, "    client-key-data: S0VZ\n", "", 1), "key is missing"},
		{"no YAML", "S0VZ: [", "no YAML"},
	} {
		_, err := Rename(row.text, "n", "s")
		if err == nil || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), "S0VZ") {
			t.Errorf("%s: %v, want %q", row.name, err, row.want)
		}
	}
}

func TestMerge(t *testing.T) {
	const own = `apiVersion: v1
kind: Config
# work
clusters:
  - name: work
    cluster:
      server: https://work.example
      extensions:
        - name: kept
users:
  - name: work
    user:
      token: mine
contexts:
  - name: work
    context:
      cluster: work
      user: work
      namespace: team
current-context: work
`
	merged, err := Merge(own, renamed)
	if err != nil {
		t.Fatal(err)
	}
	for _, kept := range []string{"# work", "name: kept", "token: mine", "namespace: team", "current-context: work", "name: lab-home", "https://192.168.1.51:6443"} {
		if !strings.Contains(merged, kept) {
			t.Errorf("%q is not in\n%s", kept, merged)
		}
	}
	again, err := Merge(merged, strings.ReplaceAll(renamed, "192.168.1.51", "192.168.1.61"))
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.ReplaceAll(merged, "192.168.1.51", "192.168.1.61"); again != want {
		t.Errorf("merged again: %s", cmp.Diff(want, again))
	}
}

func TestMergeIntoNothingIsTheLabs(t *testing.T) {
	for _, own := range []string{"", "{}", "apiVersion: v1\nclusters: null\ncontexts: []\nusers: null\ncurrent-context: \"\"\nkind: Config\npreferences: {}\n"} {
		merged, err := Merge(own, renamed)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(merged, "current-context: lab-home") || strings.Count(merged, "name: lab-home") != 3 || strings.Contains(merged, "null") {
			t.Errorf("%q became\n%s", own, merged)
		}
	}
}

func TestMergeRefusesWhatIsNoKubeconfig(t *testing.T) {
	for _, row := range []struct{ own, want string }{
		{"- a", "your kubeconfig: it is no mapping"}, {"a: [", "your kubeconfig: it is no YAML"}, {"clusters: {a: b}", "clusters is no list"},
	} {
		if _, err := Merge(row.own, renamed); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%q: %v, want %q", row.own, err, row.want)
		}
	}
}
