package hops

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHopsGoFromTheWorkloadOutwards(t *testing.T) {
	w := Way{
		Edge: Host{Name: "edge"}, Generators: []Host{{Name: "gen-1"}, {Name: "gen-2"}},
		Upstreams: []Upstream{{"app", "10.77.0.11:8080"}},
		Target:    "http://10.77.0.14:80", URL: "http://127.77.0.14:8080", Request: "/readyz",
	}
	lines := func() (all []string) {
		for _, h := range w.Hops("pi") {
			all = append(all, h.String()+" "+h.URL)
		}
		return all
	}
	outer := []string{"gen-1 → edge http://10.77.0.14:80/readyz", "gen-2 → edge http://10.77.0.14:80/readyz", "this computer → edge http://127.77.0.14:8080/readyz"}
	if diff := cmp.Diff(append([]string{"edge → app on app http://10.77.0.11:8080/readyz"}, outer...), lines()); diff != "" {
		t.Error(diff)
	}
	w.Cluster, w.Upstreams = true, []Upstream{{"agent-1", "10.77.0.17:30080"}, {"agent-2", "10.77.0.18:30080"}}
	if diff := cmp.Diff(append([]string{"edge → node agent-1 http://10.77.0.17:30080/readyz", "edge → node agent-2 http://10.77.0.18:30080/readyz"}, outer...), lines()); diff != "" {
		t.Error(diff)
	}
	if look := w.Hops("pi")[1].Look; !strings.Contains(look, "--context lab-pi") || !strings.Contains(look, "agent-2") || !strings.Contains(look, "30080") {
		t.Error(look)
	}
}

func TestReadSaysWhatCameOfEachHop(t *testing.T) {
	h := Hop{From: "edge", To: "node a"}
	for _, row := range []struct {
		name, stdout string
		want         Answer
	}{
		{"an answer", "200 0.003 \n", Answer{Hop: h, OK: true, Status: 200, Seconds: 0.003}},
		{"another program's 404 is a way through", "404 0.001 ", Answer{Hop: h, OK: true, Status: 404, Seconds: 0.001}},
		{"an error of the server's is none", "503 0.010 ", Answer{Hop: h, Status: 503, Seconds: 0.01, Error: "503 Service Unavailable"}},
		{"a status that nobody knows", "599 0.010 ", Answer{Hop: h, Status: 599, Seconds: 0.01, Error: "599"}},
		{"nothing listens", "000 0.000211 Failed to connect to 10.0.0.1 port 30080: Connection refused", Answer{Hop: h, Seconds: 0.000211, Error: "Failed to connect to 10.0.0.1 port 30080: Connection refused"}},
		{"an answer that was cut", "200 5.0 Operation timed out", Answer{Hop: h, Seconds: 5, Error: "Operation timed out"}},
		{"no curl there", "", Answer{Hop: h, Error: `curl said ""`}},
	} {
		if diff := cmp.Diff([]Answer{row.want}, Read([]Hop{h}, row.stdout)); diff != "" {
			t.Errorf("%s: %s", row.name, diff)
		}
	}
	if got := Read([]Hop{h, h}, "200 0.1 \n"); len(got) != 2 || got[1].OK || got[1].Error != "was not asked" {
		t.Errorf("a hop without a line: %+v", got)
	}
}

func TestBrokenIsTheFirstHopThatFails(t *testing.T) {
	h := Hop{From: "a", To: "b"}
	ok, refused, slow := h.Answered(200, 0.1), h.Failed("refused", 0), h.Failed("timed out", 5)
	if Broken([]Answer{ok, ok}) != nil {
		t.Error("nothing is broken")
	}
	if b := Broken([]Answer{ok, refused, slow}); b == nil || b.Error != "refused" {
		t.Errorf("%+v", b)
	}
	if got := slow.Line(); !strings.HasPrefix(got, "FAIL  a → b") || !strings.Contains(got, "timed out  (5000 ms)") {
		t.Error(got)
	}
}
