package nspawn

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"regexp"
)

// NetworkSpec declares a network: a namespace with a bridge, and the addresses
// of this computer's loopback range that lead into it.
type NetworkSpec struct {
	Name        string    `json:"name"`
	Subnet      string    `json:"subnet"`  // 10.77.0.0/24
	Gateway     string    `json:"gateway"` // the bridge's address
	Forwards    []Forward `json:"forwards"`
	Incarnation int       `json:"incarnation"`
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
	AuthorizedKey string            `json:"authorizedKey"` // of the operator, for root
	HostKeySeed   string            `json:"hostKeySeed"`   // base64, 32 bytes
	Hosts         map[string]string `json:"hosts"`         // name → address, for /etc/hosts
	Incarnation   int               `json:"incarnation"`   // counts the starts of the machine
}

var nameRule = regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}$`)

// Validate reports everything wrong with the spec.
func (s NetworkSpec) Validate() error {
	var errs []error
	if !nameRule.MatchString(s.Name) {
		errs = append(errs, fmt.Errorf("network name %q: want a-z, 0-9 and -, at most 31 characters", s.Name))
	}
	subnet, err := netip.ParsePrefix(s.Subnet)
	if err != nil {
		errs = append(errs, fmt.Errorf("network subnet: %w", err))
	}
	gateway, err := netip.ParseAddr(s.Gateway)
	if err != nil {
		errs = append(errs, fmt.Errorf("network gateway: %w", err))
	} else if !subnet.Contains(gateway) {
		errs = append(errs, fmt.Errorf("network gateway %s is outside %s", gateway, subnet))
	}
	for _, f := range s.Forwards {
		listen, err := netip.ParseAddrPort(f.Listen)
		if err != nil || !listen.Addr().IsLoopback() {
			errs = append(errs, fmt.Errorf("forward %q: listen on an address of 127.0.0.0/8 with a port", f.Listen))
		}
		to, err := netip.ParseAddrPort(f.To)
		if err != nil || !subnet.Contains(to.Addr()) {
			errs = append(errs, fmt.Errorf("forward to %q: want an address of %s with a port", f.To, s.Subnet))
		}
	}
	return errors.Join(errs...)
}

// Validate reports everything wrong with the spec.
func (s MachineSpec) Validate() error {
	var errs []error
	for what, name := range map[string]string{"machine name": s.Name, "network": s.Network} {
		if !nameRule.MatchString(name) {
			errs = append(errs, fmt.Errorf("%s %q: want a-z, 0-9 and -, at most 31 characters", what, name))
		}
	}
	if _, err := netip.ParsePrefix(s.Address); err != nil {
		errs = append(errs, fmt.Errorf("machine %s: address: %w", s.Name, err))
	}
	if s.CPUs < 0.05 {
		errs = append(errs, fmt.Errorf("machine %s: cpus %g is below 0.05", s.Name, s.CPUs))
	}
	if s.MemoryMiB < 64 {
		errs = append(errs, fmt.Errorf("machine %s: memoryMiB %d is below 64", s.Name, s.MemoryMiB))
	}
	if _, err := seedOf(s.HostKeySeed); err != nil {
		errs = append(errs, fmt.Errorf("machine %s: %w", s.Name, err))
	}
	return errors.Join(errs...)
}

// Read decodes one JSON document strictly.
func Read[T interface{ Validate() error }](r io.Reader) (T, error) {
	var spec T
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(&spec); err != nil {
		return spec, fmt.Errorf("read the spec from standard input: %w", err)
	}
	return spec, spec.Validate()
}
