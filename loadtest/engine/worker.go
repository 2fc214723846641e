package engine

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

func itoa(n int) string { return strconv.Itoa(n) }

// job is one arrival.
type job struct {
	request  request
	intended time.Time
	meter    *meter
	pending  *sync.WaitGroup
}

// worker sends one request at a time over a connection of its own.
type worker struct {
	engine *Engine
	jobs   chan job
	conn   net.Conn
	reader *bufio.Reader
}

func (w *worker) serve() {
	for j := range w.jobs {
		sent := time.Now()
		kind := w.do(j.request)
		j.meter.complete(j.intended, sent, time.Now(), kind)
		w.engine.inFlight.Add(-1)
		w.engine.mu.Lock()
		w.engine.idle = append(w.engine.idle, w)
		w.engine.mu.Unlock()
		j.pending.Done()
	}
}

// do sends a request and reads the whole answer. It returns the kind of the
// error, or "".
func (w *worker) do(r request) string {
	fresh := w.conn == nil
	kind := w.try(r)
	if kind == "reset" && !fresh {
		kind = w.try(r) // the server may close an idle connection at any time; RFC 9112, 9.3.1
	}
	return kind
}

func (w *worker) try(r request) string {
	deadline := time.Now().Add(w.engine.timeout)
	if w.conn == nil {
		conn, err := (&net.Dialer{Deadline: deadline}).Dial("tcp", w.engine.target.Host)
		if err != nil {
			return errorKind(err, "dial")
		}
		w.conn, w.reader = conn, bufio.NewReaderSize(conn, 8<<10)
	}
	_ = w.conn.SetDeadline(deadline)
	if _, err := w.conn.Write(r.raw); err != nil {
		w.close()
		return errorKind(err, "reset")
	}
	method := http.MethodGet
	if r.head {
		method = http.MethodHead
	}
	response, err := http.ReadResponse(w.reader, &http.Request{Method: method})
	if err != nil {
		w.close()
		return errorKind(err, "reset")
	}
	_, err = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	if err != nil {
		w.close()
		return errorKind(err, "reset")
	}
	if response.Close {
		w.close()
	}
	if response.StatusCode >= 400 {
		return "status-" + itoa(response.StatusCode)
	}
	return ""
}

func (w *worker) close() {
	if w.conn != nil {
		_ = w.conn.Close()
		w.conn = nil
	}
}

// errorKind sorts an error into the kinds that a step counts.
func errorKind(err error, otherwise string) string {
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return "dns"
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "timeout"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "dial"
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return "timeout"
	}
	return otherwise
}
