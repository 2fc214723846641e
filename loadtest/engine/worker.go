package engine

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"lab/loadtest/analysis"
)

// request is an endpoint, rendered.
type request struct {
	name  string
	raw   []byte       // of HTTP/1.1
	ask   http.Request // of HTTP/2, and what ReadResponse needs to know
	body  string
	again bool    // may be sent twice: RFC 9110, 9.2.2
	upTo  float64 // cumulative weight
}

// newRequest renders an endpoint. Its own headers replace the default ones.
func newRequest(u *url.URL, endpoint analysis.Endpoint, keepAlive bool) (request, error) {
	method := endpoint.Method
	if method == "" {
		method = http.MethodGet
	}
	target := u.Scheme + "://" + u.Host + strings.TrimSuffix(u.Path, "/") + endpoint.Path
	ask, err := http.NewRequest(method, target, nil)
	if err != nil {
		return request{}, fmt.Errorf("endpoint %s: %w", endpoint.Name, err)
	}
	ask.Header.Set("User-Agent", "lab")
	if endpoint.Body != "" {
		ask.Header.Set("Content-Type", "application/json")
	}
	for name, value := range endpoint.Headers {
		ask.Header.Set(name, value)
	}
	raw := method + " " + strings.TrimSuffix(u.Path, "/") + endpoint.Path + " HTTP/1.1\r\nHost: " + u.Host + "\r\n"
	for _, name := range slices.Sorted(maps.Keys(ask.Header)) {
		raw += name + ": " + ask.Header.Get(name) + "\r\n"
	}
	if endpoint.Body != "" || method == http.MethodPost || method == http.MethodPut {
		raw += "Content-Length: " + strconv.Itoa(len(endpoint.Body)) + "\r\n"
	}
	if !keepAlive {
		raw += "Connection: close\r\n"
	}
	return request{
		name: endpoint.Name, raw: []byte(raw + "\r\n" + endpoint.Body), body: endpoint.Body,
		ask: *ask, again: method == http.MethodGet || method == http.MethodHead,
	}, nil
}

// job is one arrival.
type job struct {
	request  *request
	intended time.Time
	sent     time.Time // given to a worker, or written to its connection
	meter    *meter
	pending  *sync.WaitGroup
}

// worker has one request in flight at a time, over a connection of its own.
type worker struct {
	engine *Engine
	jobs   chan job
	conn   net.Conn
	raw    syscall.RawConn // of conn, where requests are posted
	reader *bufio.Reader
	post   post
}

func (w *worker) serve() {
	defer w.close()
	j, ok := <-w.jobs
	for posted := false; ok; {
		if !posted {
			j.sent = time.Now()
			j.meter.begin(j.intended, j.sent)
		}
		kind := w.do(j.request, j.sent, posted)
		end := time.Now()
		if kind == "" && end.Sub(j.sent) > w.engine.timeout {
			kind = "timeout" // it came within the slack
		}
		j.meter.end(j.intended, j.sent, end, kind)
		j, posted, ok = w.next(j)
	}
}

// do sends a request, unless it is written already, and reads the whole answer. It
// returns the kind of the error, or "".
func (w *worker) do(r *request, sent time.Time, written bool) string {
	if w.engine.http2 != nil {
		return w.engine.http2.do(r, w.engine.timeout)
	}
	reused := w.conn != nil
	var kind string
	var answered bool
	if written {
		kind, answered = w.read(r)
	} else {
		kind, answered = w.try(r, sent)
	}
	if kind == "reset" && reused && !answered && r.again {
		kind, _ = w.try(r, sent) // a server may close an idle connection at any time: RFC 9112, 9.3.1
	}
	if kind != "" && !strings.HasPrefix(kind, "status-") || !w.engine.keepAlive {
		w.close()
	}
	return kind
}

// try is one attempt; answered says that a byte of the answer came.
func (w *worker) try(r *request, sent time.Time) (kind string, answered bool) {
	if w.conn == nil {
		conn, kind := w.engine.dial(sent.Add(w.engine.timeout))
		if kind != "" {
			return kind, false
		}
		w.conn, w.reader = conn, bufio.NewReaderSize(conn, 4<<10)
		w.post.until.Store(0)
		if w.engine.posting {
			w.raw, _ = conn.(*net.TCPConn).SyscallConn() // fails for no connection only
		}
	}
	w.due(w.conn, sent)
	if _, err := w.conn.Write(r.raw); err != nil {
		w.close()
		return errorKind(err, "reset"), false
	}
	return w.read(r)
}

// read is the answer's part of an attempt.
func (w *worker) read(r *request) (kind string, answered bool) {
	if _, err := w.reader.Peek(1); err != nil {
		w.close()
		return errorKind(err, "reset"), false
	}
	came, _ := w.reader.Peek(w.reader.Buffered()) // can't fail: it has come
	if answer, ok := plainHead(came); ok && r.ask.Method != http.MethodHead {
		return w.skip(answer), true
	}
	response, err := readFinal(w.reader, &r.ask)
	if err != nil {
		return errorKind(err, "protocol"), true
	}
	_, err = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	if err != nil {
		return errorKind(err, "protocol"), true
	}
	if response.Close {
		w.close()
	}
	return statusKind(response.StatusCode), true
}

// skip reads past an ordinary answer.
func (w *worker) skip(answer plain) (kind string) {
	came := min(answer.headBytes+answer.bodyBytes, w.reader.Buffered())
	_, _ = w.reader.Discard(came) // can't fail: it has come
	if rest := int64(answer.headBytes + answer.bodyBytes - came); rest > 0 {
		if _, err := io.CopyN(io.Discard, w.reader, rest); err != nil {
			return errorKind(err, "protocol")
		}
	}
	return statusKind(answer.status)
}

// statusKind is the kind of error that an answer is, or "".
func statusKind(status int) string {
	if status >= http.StatusBadRequest {
		return "status-" + strconv.Itoa(status)
	}
	return ""
}

// readFinal reads past interim answers, such as 103 (RFC 9110, 15.2): taken for the
// answer, one would end the request early and leave the real one to the next.
func readFinal(r *bufio.Reader, ask *http.Request) (*http.Response, error) {
	for {
		response, err := http.ReadResponse(r, ask)
		if err != nil || response.StatusCode >= http.StatusOK {
			return response, err
		}
		if response.StatusCode == http.StatusSwitchingProtocols {
			return nil, errors.New("101 Switching Protocols, which was not asked for")
		}
	}
}

func (w *worker) close() {
	if w.conn != nil {
		_ = w.conn.Close() // nothing is lost with it
		w.conn = nil
	}
}
