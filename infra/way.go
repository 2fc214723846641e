package infra

import (
	"encoding/json"

	"github.com/pulumi/pulumi-command/sdk/go/command/remote"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"lab/hops"
)

// Way is the way of a request into the lab, as JSON; secret, since it holds the key
// to the hosts on it. target is what the load generators load, request the path that
// a part of the way is tried with.
func (in *Infra) Way(target, request string) pulumi.StringOutput {
	hosts := append([]*Host{in.Edge.Host}, in.ByRole(RoleLoadgen)...)
	connections := make([]any, len(hosts))
	for i, h := range hosts {
		connections[i] = h.Connection
	}
	return pulumi.ToSecret(pulumi.All(connections...).ApplyT(func(known []any) (string, error) {
		w := hops.Way{Upstreams: in.Edge.Upstreams, Cluster: in.Cluster != nil, Target: target, URL: in.Edge.URL, Request: request}
		for i, c := range known {
			reached := reach(hosts[i].Name, c.(remote.Connection))
			if i == 0 {
				w.Edge = reached
			} else {
				w.Generators = append(w.Generators, reached)
			}
		}
		raw, err := json.Marshal(w)
		return string(raw), err
	})).(pulumi.StringOutput)
}

func reach(name string, c remote.Connection) hops.Host {
	h := hops.Host{Name: name, Address: c.Host, Port: sshPort}
	if c.Port != nil {
		h.Port = int(*c.Port)
	}
	for _, row := range []struct {
		to   *string
		from *string
	}{{&h.User, c.User}, {&h.PrivateKey, c.PrivateKey}, {&h.HostKey, c.HostKey}} {
		if row.from != nil {
			*row.to = *row.from
		}
	}
	return h
}
