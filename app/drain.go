package main

import (
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// draining ends a server's connections without losing a request on them. A server
// that closes an idle connection may do so while a request is on its way, which the
// client then has to send again, and may not where it is a write. So each client is
// told, with an answer, that it was the last one on its connection.
type draining struct {
	begun atomic.Bool
	open  atomic.Int64  // connections
	empty chan struct{} // closed when none is left
	once  sync.Once     // closes it
}

func newDraining() *draining { return &draining{empty: make(chan struct{})} }

// handler tells the clients, once the drain has begun.
func (d *draining) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.begun.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// count is the server's ConnState.
func (d *draining) count(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		d.open.Add(1)
	case http.StateClosed, http.StateHijacked:
		d.open.Add(-1)
		d.noticeEnd()
	}
}

// noticeEnd ends a drain that has no connection left.
func (d *draining) noticeEnd() {
	if d.begun.Load() && d.open.Load() == 0 {
		d.once.Do(func() { close(d.empty) })
	}
}

// run drains until no connection is left, or for the longest time. Readiness stays
// as it is: where this is the last server there is, its clients are better off here
// than nowhere.
func (d *draining) run(longest time.Duration) {
	d.begun.Store(true)
	d.noticeEnd()
	timer := time.NewTimer(longest)
	defer timer.Stop()
	select {
	case <-d.empty:
	case <-timer.C:
	}
}
