package engine

import (
	"bytes"
	"net/http"
)

// plain is what must be known of an ordinary answer to read past it.
type plain struct {
	status    int
	headBytes int // the blank line included
	bodyBytes int
}

const maxBody = 1 << 40 // bytes; what is longer is not ordinary

// plainHead reads the head of an answer where bytes that came begin with a whole
// and ordinary one: HTTP/1.1, final, with a body of a told length, on a connection
// that stays. Of anything else it says false, and http.ReadResponse must judge: that
// builds a map of headers which nobody here looks at, for a sixth of the CPU time of
// a request.
func plainHead(b []byte) (plain, bool) {
	const statusLine = len("HTTP/1.1 200 ")
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < statusLine || string(b[:9]) != "HTTP/1.1 " || b[12] != ' ' && b[12] != '\r' {
		return plain{}, false
	}
	p := plain{headBytes: end + 4, bodyBytes: -1}
	status, ok := decimal(b[9:12], 999)
	if !ok || status < 200 || status == http.StatusNoContent || status == http.StatusNotModified {
		return plain{}, false
	}
	p.status = status
	line, lines, more := bytes.Cut(b[:end], []byte("\r\n"))
	if !isText(line) {
		return plain{}, false
	}
	for more {
		line, lines, more = bytes.Cut(lines, []byte("\r\n"))
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || !isToken(name) || !isText(value) {
			return plain{}, false
		}
		value = bytes.Trim(value, " \t")
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if p.bodyBytes >= 0 { // twice
				return plain{}, false
			}
			if p.bodyBytes, ok = decimal(value, maxBody); !ok {
				return plain{}, false
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")),
			bytes.EqualFold(name, []byte("Connection")) && !bytes.EqualFold(value, []byte("keep-alive")):
			return plain{}, false
		}
	}
	return p, p.bodyBytes >= 0
}

// decimal is the number that all of b spells; false above limit.
func decimal(b []byte, limit int) (int, bool) {
	n := 0
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		if n = 10*n + int(c-'0'); n > limit {
			return 0, false
		}
	}
	return n, len(b) > 0
}

// isText says whether b has no control character but tabs: no bare end of a line,
// in particular, where another reader would see two lines.
func isText(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// isToken says whether a header's name has only the characters that one may have
// (RFC 9110, 5.6.2), of those in use: no folded line, no blank before the colon.
func isToken(name []byte) bool {
	for _, c := range name {
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return len(name) > 0
}
