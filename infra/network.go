package infra

import (
	"fmt"
	"net/netip"
	"slices"

	"lab/infra/nspawn"
)

// Ports of the services, on their hosts.
const (
	appPort      = 8080
	edgePort     = 80
	postgresPort = 5432
	redisPort    = 6379
	sshPort      = 22
)

// Ports on a host's loopback address that lead to the host.
const (
	forwardedSSH = 10022
	forwardedWeb = 8080
)

// The database that the workload uses.
const (
	databaseName = "app"
	databaseUser = "app"
)

const firstAddress = 11 // of the hosts, in the subnet and in the loopback range alike

// edgeURL is where the operator's computer reaches the edge.
func edgeURL(urlHost, kind string) string {
	if kind == KindNspawn {
		return fmt.Sprintf("http://%s:%d", urlHost, forwardedWeb)
	}
	return labURL(urlHost)
}

// labURL is where the other hosts reach the edge.
func labURL(address string) string { return fmt.Sprintf("http://%s:%d", address, edgePort) }

// address is the i-th host's address in a /24 that the configuration checked.
func address(subnet string, i int) string {
	p := netip.MustParsePrefix(subnet).Addr().As4()
	p[3] = byte(firstAddress + i)
	return netip.AddrFrom4(p).String()
}

// networkSpec is the network of the configuration's hosts.
func networkSpec(c Config, incarnation int) nspawn.NetworkSpec {
	gateway := netip.MustParsePrefix(c.Network.Subnet).Addr().Next()
	spec := nspawn.NetworkSpec{Name: c.Network.Name, Subnet: c.Network.Subnet, Gateway: gateway.String(), Incarnation: incarnation}
	forward := func(i, listen, to int) {
		spec.Forwards = append(spec.Forwards, nspawn.Forward{
			Listen: fmt.Sprintf("%s:%d", address(c.Network.Loopback, i), listen),
			To:     fmt.Sprintf("%s:%d", address(c.Network.Subnet, i), to),
		})
	}
	for i, h := range c.Hosts {
		forward(i, forwardedSSH, sshPort)
		if slices.Contains(h.Roles, RoleEdge) {
			forward(i, forwardedWeb, edgePort)
		}
		if slices.Contains(h.Roles, RoleServer) && c.Cluster.enabled() {
			forward(i, apiPort, apiPort)
		}
	}
	return spec
}

// machineSpec is the i-th host as a machine.
func machineSpec(c Config, i, incarnation int, authorizedKey, hostKeySeed string) nspawn.MachineSpec {
	hosts := map[string]string{}
	for j, h := range c.Hosts {
		hosts[h.Name] = address(c.Network.Subnet, j)
	}
	h := c.Hosts[i]
	return nspawn.MachineSpec{
		Network: c.Network.Name, Name: h.Name, Address: address(c.Network.Subnet, i) + "/24",
		CPUs: h.CPUs, MemoryMiB: h.MemoryMiB, AuthorizedKey: authorizedKey, HostKeySeed: hostKeySeed,
		Hosts: hosts, Incarnation: incarnation,
		Node: slices.Contains(h.Roles, RoleServer) || slices.Contains(h.Roles, RoleAgent),
	}
}
