package nspawn

import (
	"os"
	"path/filepath"
	"sort"
	"strings"

	"lab/atomicfile"
)

// writeIdentity writes what makes the base tree this machine.
func writeIdentity(root string, spec MachineSpec) error {
	seed, err := seedOf(spec.HostKeySeed)
	if err != nil {
		return err
	}
	key, err := hostKeyFile(seed)
	if err != nil {
		return err
	}
	for _, f := range []struct {
		path, content string
		mode          os.FileMode
	}{
		{"etc/hostname", spec.Name + "\n", 0o644},
		{"etc/hosts", hostsFile(spec), 0o644},
		{"etc/systemd/network/10-host0.network", networkFile(spec), 0o644},
		{"etc/ssh/ssh_host_ed25519_key", string(key), 0o600},
		{"root/.ssh/authorized_keys", strings.TrimSpace(spec.AuthorizedKey) + "\n", 0o600},
	} {
		if err := atomicfile.Write(filepath.Join(root, f.path), []byte(f.content), f.mode); err != nil {
			return err
		}
	}
	return nil
}

func hostsFile(spec MachineSpec) string {
	lines := []string{"127.0.0.1 localhost"}
	for name, address := range spec.Hosts {
		lines = append(lines, address+" "+name)
	}
	sort.Strings(lines[1:])
	return strings.Join(lines, "\n") + "\n"
}

func networkFile(spec MachineSpec) string {
	return "[Match]\nName=host0\n\n[Network]\nAddress=" + spec.Address + "\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n"
}
