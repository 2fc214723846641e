package infra

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"

	"lab/hops"
)

func TestTheWayInHoldsEveryHopAndIsSecret(t *testing.T) {
	c := clusterStack(t, DistributionK3s)
	var mu sync.Mutex
	var text string
	err := pulumi.RunErr(func(ctx *pulumi.Context) error {
		in, err := New(ctx, c, 30080)
		if err != nil {
			return err
		}
		way := in.Way("http://10.77.0.14:80", "/readyz")
		ctx.Export("path", way.ApplyT(func(s string) string {
			mu.Lock()
			defer mu.Unlock()
			text = s
			if !pulumi.IsSecret(way) { // known once it has resolved
				t.Error("it is not secret")
			}
			return s
		}))
		return nil
	}, pulumi.WithMocks("lab", "test", &mocks{}))
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	var got hops.Way
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	want := hops.Way{
		Edge:       hops.Host{Name: "edge", Address: "127.77.0.14", Port: 10022, User: "root"},
		Upstreams:  []hops.Upstream{{Name: "server", Address: "10.77.0.17:30080"}, {Name: "agent-1", Address: "10.77.0.16:30080"}, {Name: "agent-2", Address: "10.77.0.18:30080"}},
		Cluster:    true,
		Generators: []hops.Host{{Name: "loadgen", Address: "127.77.0.15", Port: 10022, User: "root"}},
		Target:     "http://10.77.0.14:80", URL: "http://127.77.0.14:8080", Request: "/readyz",
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(hops.Host{}, "PrivateKey", "HostKey")); diff != "" {
		t.Error(diff)
	}
	for _, h := range append(got.Generators, got.Edge) {
		if !strings.HasPrefix(h.PrivateKey, "-----BEGIN PRIVATE KEY") || !strings.HasPrefix(h.HostKey, "ssh-ed25519 ") {
			t.Errorf("%s: a key is missing", h.Name)
		}
	}
}
