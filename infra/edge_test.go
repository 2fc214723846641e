package infra

import (
	"net/http"
	"testing"
	"time"
)

// A dead node costs no request, in whatever way it is dead.
func TestEdgeGoesOnWithoutADeadNode(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	b := newEdgeBed(t)
	c := Defaults().Edge
	c.ConnectTimeoutMs = 200
	three := func() int64 { return b.nodes[2].asked.Load() }

	b.start(c)
	b.want("GET", 60, 4)
	b.want("POST", 60, 4)
	if three() < 20 || b.nodes[0].asked.Load() < 20 {
		t.Errorf("one node refuses, the others were asked %d and %d times of 120", b.nodes[0].asked.Load(), three())
	}

	b.machine.goDark(t)
	b.start(c) // no connection is open
	b.want("GET", 60, 4)
	b.want("POST", 60, 4)
	b.machine.light(t)

	b.start(c)
	open := meet(16) // so many connections are kept, of both nodes
	b.nodes[0].answer.Store(open)
	b.nodes[2].answer.Store(open)
	before := three()
	b.want("GET", 16, 16)
	if three() == before {
		t.Fatal("no connection to the third node is open")
	}
	b.nodes[0].answer.Store(http.HandlerFunc(answerOK))
	b.machine.goDark(t)
	b.want("GET", 120, 16)
	b.machine.light(t)
	b.nodes[2].answer.Store(http.HandlerFunc(answerOK))

	c.FailTimeoutSeconds = 1
	b.start(c)
	b.machine.goDark(t)
	b.want("GET", 20, 1)
	b.machine.light(t)
	before = three()
	for deadline := time.Now().Add(20 * time.Second); three() == before && time.Now().Before(deadline); {
		b.want("GET", 1, 1)
	}
	if three() == before {
		t.Error("the third node is back, and is not asked")
	}
}

// A request that changes something reaches one node once.
func TestEdgeSendsNothingTwiceThatMayNotBe(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	b := newEdgeBed(t)
	b.start(Defaults().Edge)
	asked := func() int64 { return b.nodes[0].asked.Load() + b.nodes[2].asked.Load() }
	b.nodes[0].answer.Store(http.HandlerFunc(reset))
	b.nodes[2].answer.Store(http.HandlerFunc(reset))
	for _, method := range []string{"POST", "PATCH"} {
		before := asked()
		if got := b.ask(method); got != "502 Bad Gateway" {
			t.Errorf("%s: %s", method, got)
		}
		if got := asked() - before; got != 1 {
			t.Errorf("%s reached nodes %d times, want 1", method, got)
		}
	}
	b.nodes[2].answer.Store(http.HandlerFunc(answerOK))
	b.want("GET", 20, 1)
}

// Every node failed a moment ago: passive checks leave them all out, and the edge
// asks them still.
func TestEdgeHasAnUpstreamWhenEveryNodeFailedLately(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	b := newEdgeBed(t)
	b.start(Defaults().Edge)
	b.nodes[0].answer.Store(http.HandlerFunc(reset))
	b.nodes[2].answer.Store(http.HandlerFunc(reset))
	for range 6 {
		if got := b.ask("POST"); got != "502 Bad Gateway" {
			t.Errorf("no node answers: %s", got)
		}
	}
	b.nodes[0].answer.Store(http.HandlerFunc(answerOK))
	b.nodes[2].answer.Store(http.HandlerFunc(answerOK))
	b.want("GET", 20, 1)
	b.want("POST", 20, 1)
}
