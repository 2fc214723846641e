package nspawn

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lab/atomicfile"
)

func TestDistributionSources(t *testing.T) {
	const bookworm = "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nVERSION_CODENAME=bookworm\n"
	tests := []struct {
		name  string
		files map[string]string
		want  []string
		err   string
	}{
		{
			"Debian's stanzas, and third parties of the same release stay out",
			map[string]string{
				"os-release": bookworm,
				"apt/sources.list.d/debian.sources": "Types: deb deb-src\nURIs: http://mirror.example/debian\nSuites: bookworm bookworm-updates bookworm-backports\n" +
					"Components: main contrib\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n \n# security\nTypes: deb\nURIs: http://mirror.example/debian-security\n" +
					"Suites: bookworm-security\nComponents: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n",
				"apt/sources.list.d/node.sources":     "Types: deb\nURIs: https://node.example\nSuites: nodistro\nComponents: main\n",
				"apt/sources.list.d/docker.list":      "deb [arch=amd64 signed-by=/etc/apt/keyrings/docker.asc] https://docker.example/debian bookworm stable\n",
				"apt/sources.list.d/hashicorp.list":   "deb [signed-by=/usr/share/keyrings/hashicorp-archive-keyring.gpg] https://hashicorp.example bookworm main\n",
				"apt/sources.list.d/embedded.sources": "Types: deb\nURIs: https://key.example\nSuites: bookworm\nComponents: main\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mQINB\n -----END PGP PUBLIC KEY BLOCK-----\n",
			},
			[]string{
				"deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://mirror.example/debian bookworm main contrib",
				"deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://mirror.example/debian bookworm-updates main contrib",
				"deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://mirror.example/debian-security bookworm-security main",
			}, "",
		},
		{
			"Ubuntu's one-line format, with comments, options and a source twice",
			map[string]string{
				"os-release": "VERSION_CODENAME=\"noble\"\n",
				"apt/sources.list": "# deb cdrom:[Ubuntu]/ noble main\ndeb http://archive.example/ubuntu noble main universe # all\n" +
					"deb\thttp://archive.example/ubuntu  noble-updates main\ndeb-src http://archive.example/ubuntu noble main\n" +
					"deb [ arch=amd64 trusted=yes ] http://inside.example/ubuntu noble-security main\ndeb http://archive.example/ubuntu noble main universe\ndeb\n",
			},
			[]string{
				"deb [trusted=yes] http://inside.example/ubuntu noble-security main",
				"deb http://archive.example/ubuntu noble main universe",
				"deb http://archive.example/ubuntu noble-updates main",
			}, "",
		},
		{
			"a stanza that is off does not count, a folded field does",
			map[string]string{
				"os-release":                   bookworm,
				"apt/sources.list.d/a.sources": "Enabled: no\nTypes: deb\nURIs: http://off.example\nSuites: bookworm\nComponents: main\n\nTypes: deb\nURIs:\n http://one.example\n http://two.example\nSuites: bookworm\nComponents: main\n",
			},
			[]string{"deb http://one.example bookworm main", "deb http://two.example bookworm main"}, "",
		},
		{"no source of the release", map[string]string{"os-release": bookworm, "apt/sources.list": "deb http://x.example trixie main\n"}, nil,
			"no apt source for bookworm in /etc/apt: add the distribution's own sources"},
		{"a distribution that names no release", map[string]string{"os-release": "ID=arch\n"}, nil,
			"/etc/os-release has no VERSION_CODENAME: the local stack needs Debian or Ubuntu"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			for name, content := range tt.files {
				if err := atomicfile.Write(filepath.Join(root, "etc", name), []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			_, got, err := distributionSources(root)
			if (err == nil) != (tt.err == "") || (err != nil && err.Error() != tt.err) {
				t.Fatalf("error %v, want %q", err, tt.err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("sources (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMountsBelow(t *testing.T) {
	info := filepath.Join(t.TempDir(), "mountinfo")
	text := "1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 0:3 / /lab/b.building/sys rw - sysfs sysfs rw\n3 2 0:4 / /lab/b.building/sys/fs\\040x rw - tmpfs tmpfs rw\n" +
		"4 1 0:5 / /lab/b.building2 rw - tmpfs tmpfs rw\n5 1 0:6 / /lab rw - tmpfs tmpfs rw\n"
	if err := os.WriteFile(info, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := mountsBelow("/lab/b.building", info)
	if diff := cmp.Diff([]string{"/lab/b.building/sys/fs x", "/lab/b.building/sys"}, got); diff != "" || err != nil {
		t.Errorf("mounts, error %v (-want +got):\n%s", err, diff)
	}
}
