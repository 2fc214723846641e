package nspawn

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// NetworkSpec declares a network: a namespace with a bridge, and the addresses
// of this computer's loopback range that lead into it.
type NetworkSpec struct {
	Name        string    `json:"name"`
	Subnet      string    `json:"subnet"`  // 10.77.0.0/24
	Gateway     string    `json:"gateway"` // the bridge's address
	Forwards    []Forward `json:"forwards"`
	Incarnation int       `json:"incarnation"` // see NetworkIncarnation
}

// Forward leads a loopback address of this computer into the network.
type Forward struct {
	Listen string `json:"listen"` // 127.77.0.11:10022
	To     string `json:"to"`     // 10.77.0.11:22
}

// MachineSpec declares a machine.
type MachineSpec struct {
	Network       string            `json:"network"`
	Name          string            `json:"name"`
	Address       string            `json:"address"` // 10.77.0.11/24
	CPUs          float64           `json:"cpus"`    // cap, in CPUs of this computer
	MemoryMiB     int               `json:"memoryMiB"`
	AuthorizedKey string            `json:"authorizedKey"`  // of the operator, for root
	HostKeySeed   string            `json:"hostKeySeed"`    // base64, 32 bytes
	Hosts         map[string]string `json:"hosts"`          // name → address, for /etc/hosts
	Incarnation   int               `json:"incarnation"`    // see Incarnation
	Node          bool              `json:"node,omitempty"` // may run containers; takes effect when it starts
}

// ip is the address without the length of its prefix.
func (s MachineSpec) ip() string {
	address, _, _ := strings.Cut(s.Address, "/")
	return address
}

const (
	minCPUs      = 0.05 // below, a machine takes minutes to boot
	minMemoryMiB = 64   // systemd, sshd and one login
)

var nameRule = regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}$`)

// problems collects everything wrong with a spec.
type problems struct{ errs []error }

func (p *problems) check(ok bool, format string, args ...any) {
	if !ok {
		p.errs = append(p.errs, fmt.Errorf(format, args...))
	}
}

func (p *problems) name(what, name string) {
	p.check(nameRule.MatchString(name), "%s: %q is not made of a-z, 0-9 and -, from a letter on, 31 characters at most", what, name)
}

// Validate reports everything wrong with the spec, a line each.
func (s NetworkSpec) Validate() error {
	var p problems
	p.name("network.name", s.Name)
	subnet, err := netip.ParsePrefix(s.Subnet)
	p.check(err == nil, "network.subnet: %q is no subnet such as 10.77.0.0/24", s.Subnet)
	gateway, err := netip.ParseAddr(s.Gateway)
	p.check(err == nil && subnet.Contains(gateway), "network.gateway: %q is no address in %q", s.Gateway, s.Subnet)
	seen := map[string]bool{}
	for i, f := range s.Forwards {
		path := fmt.Sprintf("network.forwards[%d]", i)
		listen, err := netip.ParseAddrPort(f.Listen)
		p.check(err == nil && listen.Addr().IsLoopback() && listen.Port() != 0, "%s.listen: %q is no address of 127.0.0.0/8 with a port", path, f.Listen)
		p.check(!seen[f.Listen], "%s.listen: %s is there twice", path, f.Listen)
		seen[f.Listen] = true
		to, err := netip.ParseAddrPort(f.To)
		p.check(err == nil && subnet.Contains(to.Addr()) && to.Port() != 0, "%s.to: %q is no address in %q with a port", path, f.To, s.Subnet)
	}
	return errors.Join(p.errs...)
}

// Validate reports everything wrong with the spec, a line each.
func (s MachineSpec) Validate() error {
	var p problems
	p.name("machine.name", s.Name)
	p.name("machine.network", s.Network)
	_, err := netip.ParsePrefix(s.Address)
	p.check(err == nil, "machine.address: %q is no address with a prefix such as 10.77.0.11/24", s.Address)
	p.check(s.CPUs >= minCPUs, "machine.cpus: %g is below %g", s.CPUs, minCPUs)
	p.check(s.MemoryMiB >= minMemoryMiB, "machine.memoryMiB: %d is below %d", s.MemoryMiB, minMemoryMiB)
	_, _, _, rest, err := ssh.ParseAuthorizedKey([]byte(s.AuthorizedKey))
	p.check(err == nil && len(rest) == 0, "machine.authorizedKey: %q is not one line of authorized_keys", s.AuthorizedKey)
	_, err = seedOf(s.HostKeySeed)
	p.check(err == nil, "machine.hostKeySeed: it is not 32 bytes in base64")
	for _, host := range slices.Sorted(maps.Keys(s.Hosts)) {
		p.name("machine.hosts", host)
		_, err := netip.ParseAddr(s.Hosts[host])
		p.check(err == nil, "machine.hosts.%s: %q is no address", host, s.Hosts[host])
	}
	return errors.Join(p.errs...)
}

// Read decodes one JSON document strictly and validates it.
func Read[T interface{ Validate() error }](r io.Reader) (T, error) {
	var spec T
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(&spec); err != nil {
		return spec, fmt.Errorf("read the spec from standard input: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return spec, fmt.Errorf("read the spec from standard input: there is more than one document")
	}
	return spec, spec.Validate()
}
