package engine

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
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
		ask.Body, ask.ContentLength = io.NopCloser(strings.NewReader(r.body)), int64(len(r.body))
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
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "reset"
	}
	return otherwise
}
