package nspawn

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const testKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIK9wxa9jpAgYldpYVTiuGi8tLnFBmKFV+ZcdEPnbFdNv operator"

func validMachine() MachineSpec {
	return MachineSpec{
		Network: "lab-local", Name: "app", Address: "10.77.0.11/24", CPUs: 0.5, MemoryMiB: 512, AuthorizedKey: testKey,
		HostKeySeed: base64.StdEncoding.EncodeToString(make([]byte, 32)), Hosts: map[string]string{"app": "10.77.0.11"}, Incarnation: 1,
	}
}

func TestMachineSpecValidate(t *testing.T) {
	tests := []struct {
		name   string
		change func(*MachineSpec)
		want   []string
	}{
		{"a whole spec is fine", func(*MachineSpec) {}, nil},
		{"an operator key may end in a newline", func(s *MachineSpec) { s.AuthorizedKey += "\n" }, nil},
		{"an upper-case name", func(s *MachineSpec) { s.Name = "App" }, []string{`machine.name: "App" is not made of a-z, 0-9 and -, from a letter on, 31 characters at most`}},
		{"a name that is a path", func(s *MachineSpec) { s.Network = "../lab" }, []string{`machine.network: "../lab" is not made of a-z, 0-9 and -, from a letter on, 31 characters at most`}},
		{"an address without a prefix", func(s *MachineSpec) { s.Address = "10.77.0.11" }, []string{`machine.address: "10.77.0.11" is no address with a prefix such as 10.77.0.11/24`}},
		{"a CPU cap too small to boot", func(s *MachineSpec) { s.CPUs = 0.01 }, []string{"machine.cpus: 0.01 is below 0.05"}},
		{"a memory cap too small to boot", func(s *MachineSpec) { s.MemoryMiB = 32 }, []string{"machine.memoryMiB: 32 is below 64"}},
		{"two operator keys in one", func(s *MachineSpec) { s.AuthorizedKey = "x\ny" }, []string{`machine.authorizedKey: "x\ny" is not one line of authorized_keys`}},
		{"a short seed, which is not shown", func(s *MachineSpec) { s.HostKeySeed = "c2VjcmV0" }, []string{"machine.hostKeySeed: it is not 32 bytes in base64"}},
		{"everything wrong is reported at once", func(s *MachineSpec) { s.CPUs, s.MemoryMiB, s.Hosts["b"] = 0, 0, "b.lan" },
			[]string{"machine.cpus: 0 is below 0.05", "machine.memoryMiB: 0 is below 64", `machine.hosts.b: "b.lan" is no address`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := validMachine()
			tt.change(&s)
			checkLines(t, s.Validate(), tt.want)
		})
	}
}

func TestNetworkSpecValidate(t *testing.T) {
	tests := []struct {
		name   string
		change func(*NetworkSpec)
		want   []string
	}{
		{"a whole spec is fine", func(*NetworkSpec) {}, nil},
		{"a subnet without a length", func(s *NetworkSpec) { s.Subnet, s.Forwards = "10.77.0.0", nil },
			[]string{`network.subnet: "10.77.0.0" is no subnet such as 10.77.0.0/24`, `network.gateway: "10.77.0.1" is no address in "10.77.0.0"`}},
		{"a gateway outside", func(s *NetworkSpec) { s.Gateway = "10.78.0.1" }, []string{`network.gateway: "10.78.0.1" is no address in "10.77.0.0/24"`}},
		{"a forward that others could reach", func(s *NetworkSpec) { s.Forwards[0].Listen = "0.0.0.0:22" },
			[]string{`network.forwards[0].listen: "0.0.0.0:22" is no address of 127.0.0.0/8 with a port`}},
		{"a forward out of the network", func(s *NetworkSpec) { s.Forwards[0].To = "192.0.2.1:22" },
			[]string{`network.forwards[0].to: "192.0.2.1:22" is no address in "10.77.0.0/24" with a port`}},
		{"a forward twice", func(s *NetworkSpec) { s.Forwards = append(s.Forwards, s.Forwards[0]) },
			[]string{"network.forwards[1].listen: 127.77.0.11:10022 is there twice"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := NetworkSpec{Name: "lab-local", Subnet: "10.77.0.0/24", Gateway: "10.77.0.1", Forwards: []Forward{{"127.77.0.11:10022", "10.77.0.11:22"}}}
			tt.change(&s)
			checkLines(t, s.Validate(), tt.want)
		})
	}
}

func checkLines(t *testing.T, err error, want []string) {
	t.Helper()
	var got []string
	if err != nil {
		got = strings.Split(err.Error(), "\n")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestRead(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"an unknown key", `{"nam": "x"}`, `read the spec from standard input: json: unknown field "nam"`},
		{"no input", ``, "read the spec from standard input: EOF"},
		{"two documents", `{} {}`, "read the spec from standard input: there is more than one document"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Read[NetworkSpec](strings.NewReader(tt.in)); err == nil || err.Error() != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}
