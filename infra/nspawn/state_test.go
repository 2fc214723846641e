package nspawn

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"

	"lab/atomicfile"
)

func TestIncarnation(t *testing.T) {
	self, err := identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	reused, rebooted := self, self
	reused.StartTime = "1"
	rebooted.BootID = "another"
	recorded := func(p process) string {
		raw, err := json.Marshal(record{3, p, "base"})
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	tests := []struct {
		name, record string
		want         int
	}{
		{"a machine that never was is number 1", "", 1},
		{"one that lives keeps its number", recorded(self), 3},
		{"a dead one is to be the next", recorded(process{1 << 30, "1", self.BootID}), 4},
		{"another process with its pid is not it", recorded(reused), 4},
		{"nor is one with its pid after a restart of the computer", recorded(rebooted), 4},
		{"a record without a process is of a dead one", recorded(process{}), 4},
		{"a record that can't be read is as good as none", "{", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if tt.record != "" {
				for _, path := range []string{filepath.Join(machineDir(dir, "lab-x", "app"), recordFile), filepath.Join(networkDir(dir, "lab-x"), recordFile)} {
					if err := atomicfile.Write(path, []byte(tt.record), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			if got := Incarnation(dir, "lab-x", "app"); got != tt.want {
				t.Errorf("machine: got %d, want %d", got, tt.want)
			}
			if got := NetworkIncarnation(dir, "lab-x"); got != tt.want {
				t.Errorf("network: got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestParseStartTime(t *testing.T) {
	stat := func(name, state string) string {
		return fmt.Sprintf("7 (%s) %s %s4711 0 0", name, state, strings.Repeat("0 ", 18))
	}
	tests := []struct {
		name, stat, want string
		ok               bool
	}{
		{"a plain name", stat("nspawn", "S"), "4711", true},
		{"a name with spaces and brackets", stat("a) R 1 (b", "S"), "4711", true},
		{"a zombie has ended", stat("nspawn", "Z"), "", false},
		{"a line that was cut", "7 (x) S 1", "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseStartTime(tt.stat)
			if got != tt.want || (err == nil) != tt.ok {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func TestHostKey(t *testing.T) {
	// RFC 8032, section 7.1, test 1.
	seed := []byte("\x9d\x61\xb1\x9d\xef\xfd\x5a\x60\xba\x84\x4a\xf4\x92\xec\x2c\xc4\x44\x49\xc5\x69\x7b\x32\x69\x19\x70\x3b\xac\x03\x1c\xae\x7f\x60")
	const want = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINdamAGCsQq31Uv+08lkBzoO4XLz2qYjJa8CGmj3B1Ea"
	got, err := HostKey(seed)
	if err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	file, err := hostKeyFile(seed)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.ParsePrivateKey(file)
	if err != nil {
		t.Fatal(err)
	}
	if public := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey()))); public != want {
		t.Errorf("sshd's file holds the key %q, want %q", public, want)
	}
	if _, err := HostKey(seed[:31]); err == nil || err.Error() != "host key seed: 31 bytes, want 32" {
		t.Errorf("a short seed: %v", err)
	}
}

func TestIdentityFiles(t *testing.T) {
	s := validMachine()
	s.Hosts = map[string]string{"loadgen": "10.77.0.15", "app": "10.77.0.11", "database": "10.77.0.12"}
	root := t.TempDir()
	if err := writeIdentity(root, s); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"etc/hostname":                         "app\n",
		"etc/hosts":                            "127.0.0.1 localhost\n10.77.0.11 app\n10.77.0.12 database\n10.77.0.15 loadgen\n",
		"etc/systemd/network/10-host0.network": "[Match]\nName=host0\n\n[Network]\nAddress=10.77.0.11/24\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n",
		"root/.ssh/authorized_keys":            testKey + "\n",
	} {
		got, err := os.ReadFile(filepath.Join(root, name))
		if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
			t.Errorf("%s, error %v (-want +got):\n%s", name, err, diff)
		}
	}
	info, err := os.Stat(filepath.Join(root, "etc/ssh/ssh_host_ed25519_key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the host key's file: %v, %v; want mode 0600", info, err)
	}
}

// sshd rejects keys that others can write to.
func TestWriteFileReplacesAndKeepsTheMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "f")
	for _, content := range []string{"one", "two"} {
		if err := atomicfile.Write(path, []byte(content), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	info, _ := os.Stat(path)
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".new-*"))
	if err != nil || !bytes.Equal(got, []byte("two")) || info.Mode().Perm() != 0o640 || len(left) != 0 {
		t.Errorf("content %q, mode %v, left %v, error %v", got, info.Mode(), left, err)
	}
}
