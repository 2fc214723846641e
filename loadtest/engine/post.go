package engine

import (
	"errors"
	"net"
	"os"
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

// maxSlack is how much later than due a request that takes too long may be given up.
// So a connection's deadline is set about once in that time and not with every
// request, which costs two timers each. What is answered within the slack has timed
// out all the same.
const maxSlack = 500 * time.Millisecond

// post is where the pacing thread leaves jobs for a worker that listens.
type post struct {
	state atomic.Int32
	conn  net.Conn // of the worker; set before it listens
	job   job      // set before it is posted
	last  job      // of the worker: done when it listens
	told  bool     // of the worker: it listens
	// until is the connection's deadline, as time since the engine began, or earlier.
	// Both sides may set it for one job: to the same.
	until atomic.Int64
}

// due has a request sent at a time end by its timeout, and not much later.
func (w *worker) due(conn net.Conn, sent time.Time) {
	e := w.engine
	if need := sent.Add(e.timeout).Sub(e.began); time.Duration(w.post.until.Load()) < need {
		need += min(e.timeout/8, maxSlack)
		_ = conn.SetDeadline(e.began.Add(need)) // fails on a closed connection only: so does the write
		w.post.until.Store(int64(need))
	}
}

// give hands a job to an idle worker: by the connection that it listens to, or by
// its channel.
func (w *worker) give(j job) {
	if w.post.state.Load() == listening {
		conn := w.post.conn // once posted, the worker may be done before this goes on
		w.post.job = j
		if w.post.state.CompareAndSwap(listening, posted) {
			j.meter.begin(j.intended, j.sent)
			w.due(conn, j.sent)
			_, _ = conn.Write(j.request.raw) // an error here is one of the worker's read, too
			return
		}
	}
	w.jobs <- j
}

// next is the worker's next job; last is the one that it has done. It says false
// when the job came by the channel, and isn't written yet.
func (w *worker) next(last job) (j job, posted, ok bool) {
	if j, posted = w.listen(last); posted {
		return j, true, true
	}
	j, ok = <-w.jobs
	return j, false, ok
}

// listen waits for a posted job. It says false at once when the worker can't listen,
// and later when nothing was posted until the last request's deadline, or when the
// connection ends or says what nobody asked for.
func (w *worker) listen(last job) (j job, ok bool) {
	if w.conn != nil && w.reader.Buffered() > 0 {
		w.close() // what was said beyond the answer would be taken for the next one
	}
	if w.conn == nil || !w.engine.posting {
		w.rest(last)
		return job{}, false
	}
	w.post.conn, w.post.last, w.post.told = w.conn, last, false
	// The worker waits until there is something to read, and doesn't try to before: a
	// read that finds nothing costs as much as one that does.
	err := w.raw.Read(w.readable)
	if !w.post.told { // the deadline had passed already, or the connection is closed
		w.rest(last)
		return job{}, false
	}
	idle := errors.Is(err, os.ErrDeadlineExceeded)
	if w.post.state.CompareAndSwap(listening, waiting) {
		if !idle { // else the connection stays, and the next job comes by the channel
			w.close()
		}
		return job{}, false
	}
	w.post.state.Store(waiting)
	if j = w.post.job; idle && time.Since(j.sent) < w.engine.timeout {
		w.post.until.Store(0) // the deadline that passed was an earlier request's
		w.due(w.conn, j.sent)
	}
	return j, true
}

// readable is called when the connection begins to be watched, and when it may be
// read. Only from the first call on may a request be posted: an answer that came
// before would not be seen.
func (w *worker) readable(uintptr) bool {
	if w.post.told {
		return true
	}
	w.post.told = true
	w.post.state.Store(listening)
	w.rest(w.post.last)
	return false
}

// rest makes the worker known as idle, and its last job as done.
func (w *worker) rest(last job) {
	w.engine.rest(w)
	if last.pending != nil {
		last.pending.Done()
	}
}

// end lets an idle worker go.
func (w *worker) end() {
	close(w.jobs)
	if w.post.state.Load() == listening {
		_ = w.post.conn.Close() // wakes it
	}
}
