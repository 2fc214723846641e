package engine

import (
	"net"
	"sync/atomic"
	"time"
)

// A worker that listens already reads from its idle connection. The pacing thread
// then writes the request itself and the answer wakes the worker, which saves what
// handing over costs: waking the worker to write, and its read of an answer that
// isn't there yet.
const (
	waiting   = iota // the worker waits for a job, if for anything
	listening        // it reads; the connection is idle
	posted           // it reads; a request is written to the connection, or about to be
)

// maxPosted is in bytes, of a request: one fits the empty buffer of a socket, so that
// writing it doesn't block.
const maxPosted = 4 << 10

// posts says whether requests may be written by the pacing thread: all are small,
// and the connections carry them as they are. TLS is left to the workers.
func (e *Engine) posts() bool {
	for i := range e.endpoints {
		if e.endpoints[i].body != "" || len(e.endpoints[i].raw) > maxPosted {
			return false
		}
	}
	return e.tls == nil && e.keepAlive
}

// post is where the pacing thread leaves jobs for a worker that listens.
type post struct {
	state atomic.Int32
	conn  net.Conn // of the worker; set before it listens
	job   job      // set before it is posted
}

// give hands a job to an idle worker: by the connection that it listens to, or by
// its channel.
func (w *worker) give(j job) {
	if w.post.state.Load() == listening {
		conn := w.post.conn // once posted, the worker may be done before this goes on
		w.post.job = j
		if w.post.state.CompareAndSwap(listening, posted) {
			j.meter.begin(j.intended, j.sent)
			_ = conn.SetDeadline(j.sent.Add(w.engine.timeout))
			_, _ = conn.Write(j.request.raw) // an error here is one of the worker's read, too
			return
		}
	}
	w.jobs <- j
}

// open makes a worker ready to listen, if it has a connection still. What was said
// beyond the answer would be taken for the next one: that connection ends.
func (w *worker) open() {
	if w.conn != nil && w.reader.Buffered() > 0 {
		w.close()
	}
	if w.conn == nil || !w.engine.posting {
		w.post.state.Store(waiting)
		return
	}
	_ = w.conn.SetDeadline(time.Time{}) // it may be idle for long
	w.post.conn = w.conn
	w.post.state.Store(listening)
}

// listen waits for a posted job. It says false at once when the worker isn't open,
// and when the connection ends, or says what nobody asked for.
func (w *worker) listen() (j job, ok bool) {
	if w.post.state.Load() == waiting {
		return job{}, false
	}
	_, _ = w.reader.Peek(1) // its error is that of the next read, too
	if !w.post.state.CompareAndSwap(listening, waiting) {
		return w.post.job, true
	}
	w.close()
	return job{}, false
}

// end lets an idle worker go.
func (w *worker) end() {
	close(w.jobs)
	if w.post.state.Load() == listening {
		_ = w.post.conn.Close() // wakes it
	}
}
