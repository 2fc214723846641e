package engine

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// dial opens a connection, over TLS for https. A name is looked up each time: what
// a resolver adds is part of what a new connection costs.
func (e *Engine) dial(deadline time.Time) (conn net.Conn, kind string) {
	conn, err := (&net.Dialer{Deadline: deadline}).Dial("tcp", e.address)
	if err != nil {
		return nil, errorKind(err, "dial")
	}
	if e.tls == nil {
		return conn, ""
	}
	_ = conn.SetDeadline(deadline) // fails on a closed connection only: so does the handshake
	secured := tls.Client(conn, e.tls)
	if err := secured.Handshake(); err != nil {
		_ = conn.Close()
		return nil, errorKind(err, "tls")
	}
	return secured, ""
}

// http2 shares connections between the workers: as many as the server's limit of
// concurrent streams asks for.
type http2 struct{ transport *http.Transport }

// newHTTP2 speaks HTTP/2 only: by ALPN over TLS, and with prior knowledge (RFC
// 9113, 3.3) in clear text.
func newHTTP2(config *tls.Config) *http2 {
	protocols := new(http.Protocols)
	protocols.SetHTTP2(config != nil)
	protocols.SetUnencryptedHTTP2(config == nil)
	return &http2{&http.Transport{Protocols: protocols, TLSClientConfig: config, DisableCompression: true}}
}

func (h *http2) do(r *request, timeout time.Duration) string {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	ask := r.ask.WithContext(ctx)
	if r.body != "" {
		// Anew for each attempt: the transport sends again what the server says it did
		// not process (RFC 9113, 6.8 and 8.7), whatever the method.
		ask.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(r.body)), nil }
		ask.Body, _ = ask.GetBody()
		ask.ContentLength = int64(len(r.body))
	}
	response, err := h.transport.RoundTrip(ask)
	if err != nil {
		return errorKind(err, "protocol")
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return errorKind(err, "protocol")
	}
	if response.StatusCode >= http.StatusBadRequest {
		return "status-" + strconv.Itoa(response.StatusCode)
	}
	return ""
}

// streamError is how the transport's own, unexported error of a stream shows itself
// to errors.As: by the names of its fields. Code is one of RFC 9113, 7.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (e streamError) Error() string { return "stream error " + strconv.FormatUint(uint64(e.Code), 10) }

// ended are the codes of a stream that the server ended without anybody having broken
// the protocol: NO_ERROR, INTERNAL_ERROR, STREAM_CLOSED, REFUSED_STREAM, CANCEL and
// ENHANCE_YOUR_CALM. A server resets the stream where it would close a connection of
// HTTP/1.1.
var ended = []uint32{0x0, 0x2, 0x5, 0x7, 0x8, 0xb}

// goneAway is in the text of the transport's error for a request whose connection was
// closed after a GOAWAY that had promised its answer: its type is unexported.
const goneAway = "server sent GOAWAY and closed the connection"

// cutShort says whether the server ended the request before its answer was complete.
func cutShort(err error) bool {
	var stream streamError
	return errors.As(err, &stream) && slices.Contains(ended, stream.Code) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		strings.Contains(err.Error(), goneAway)
}

// errorKind sorts an error into the kinds that a step counts: dns, timeout, tls,
// dial, reset (also a truncated answer), or what the caller was at.
func errorKind(err error, otherwise string) string {
	var (
		dns         *net.DNSError
		timeout     net.Error
		certificate *tls.CertificateVerificationError
		record      tls.RecordHeaderError
		alert       tls.AlertError
		op          *net.OpError
	)
	switch {
	case errors.As(err, &dns):
		return "dns"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	case errors.As(err, &certificate), errors.As(err, &record), errors.As(err, &alert):
		return "tls"
	case errors.Is(err, syscall.ECONNREFUSED), errors.As(err, &op) && op.Op == "dial":
		return "dial"
	case cutShort(err):
		return "reset"
	}
	return otherwise
}
