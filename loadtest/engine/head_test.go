package engine

import (
	"bufio"
	"bytes"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
)

const ordinary = "HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 5\r\n\r\n"

func TestOrdinaryHeads(t *testing.T) {
	for name, row := range map[string]struct {
		head string
		want plain
	}{
		"as most are":              {ordinary, plain{200, len(ordinary), 5}},
		"no reason":                {"HTTP/1.1 200\r\nContent-Length: 5\r\n\r\n", plain{200, 35, 5}},
		"an empty body":            {"HTTP/1.1 200 OK\r\ncontent-length:0\r\n\r\n", plain{200, 37, 0}},
		"blanks around the value":  {"HTTP/1.1 503 X\r\nCONTENT-LENGTH: \t 12 \r\n\r\n", plain{503, 41, 12}},
		"said to be kept":          {"HTTP/1.1 404 X\r\nConnection: Keep-Alive\r\nContent-Length: 1\r\n\r\n", plain{404, 61, 1}},
		"a value with a colon":     {"HTTP/1.1 200 X\r\nX_a: http://b: c\r\nContent-Length: 1\r\n\r\n", plain{200, 55, 1}},
		"a blank line in the body": {ordinary + "a\r\n\r\n", plain{200, len(ordinary), 5}},
	} {
		if got, ok := plainHead([]byte(row.head)); !ok || got != row.want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, ok, row.want)
		}
	}
}

func TestHeadsThatAreNotOrdinary(t *testing.T) {
	for name, head := range map[string]string{
		"nothing":                           "",
		"a part":                            ordinary[:len(ordinary)-1],
		"another protocol":                  "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n",
		"an interim answer":                 "HTTP/1.1 103 X\r\nContent-Length: 5\r\n\r\n",
		"a status without a body":           "HTTP/1.1 204 X\r\nContent-Length: 5\r\n\r\n",
		"not modified":                      "HTTP/1.1 304 X\r\nContent-Length: 5\r\n\r\n",
		"a status that is no number":        "HTTP/1.1 2x0 X\r\nContent-Length: 5\r\n\r\n",
		"a long status":                     "HTTP/1.1 2000 X\r\nContent-Length: 5\r\n\r\n",
		"no length":                         "HTTP/1.1 200 OK\r\nDate: x\r\n\r\n",
		"no header":                         "HTTP/1.1 200 OK\r\n\r\n",
		"two lengths":                       "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
		"a length below 0":                  "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
		"an empty length":                   "HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n",
		"a list of lengths":                 "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n",
		"a length that overflows":           "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551621\r\n\r\n",
		"chunks":                            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
		"a connection that ends":            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n",
		"a connection that ends, in a list": "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive, close\r\n\r\n",
		"a folded line":                     "HTTP/1.1 200 OK\r\nX: a\r\n b: c\r\nContent-Length: 5\r\n\r\n",
		"a blank before the colon":          "HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\n",
		"a bare line feed":                  "HTTP/1.1 200 OK\r\nX: a\nContent-Length: 6\r\nContent-Length: 5\r\n\r\n",
		"a bare line feed at the top":       "HTTP/1.1 200 OK\nContent-Length: 6\r\nX: y\r\n\r\n",
		"a control character":               "HTTP/1.1 200 OK\r\nX: a\x00\r\nContent-Length: 5\r\n\r\n",
		"a line without a colon":            "HTTP/1.1 200 OK\r\nx\r\nContent-Length: 5\r\n\r\n",
	} {
		if got, ok := plainHead([]byte(head)); ok {
			t.Errorf("%s: taken for %+v", name, got)
		}
	}
}

// TestAPlainHeadIsReadAsHTTPReadsIt: whatever bytes come, where plainHead knows the
// answer, net/http reads the same one.
func TestAPlainHeadIsReadAsHTTPReadsIt(t *testing.T) {
	parts := []string{
		"HTTP/1.1 200 OK\r\n", "HTTP/1.1 500 \r\n", "HTTP/1.1 20 OK\r\n", "Content-Length: 5\r\n", "content-length:17\r\n", "Content-Length: 05\r\n",
		"Content-Length: 5\n", "Connection: keep-alive\r\n", "Connection: close\r\n", "Transfer-Encoding: chunked\r\n", "X: y\r\n", "X: a\rb\r\n", "X: a\x00b\r\n",
		": y\r\n", " X: y\r\n", "X : y\r\n", "Trailer: X\r\n", "Upgrade: h2c\r\n", "X: a\n", "\n", "X: a\x7fb\r\n", "\r\n", "\r\n\r\n", "5\r\nhello\r\n0\r\n\r\n",
	}
	random := rand.New(rand.NewPCG(1, 2))
	knew := 0
	for range 200_000 {
		text := parts[random.IntN(3)]
		for range 1 + random.IntN(4) {
			text += parts[3+random.IntN(len(parts)-3)]
		}
		text += "\r\n"
		got, ok := plainHead([]byte(text))
		if !ok {
			continue
		}
		knew++
		r := bufio.NewReader(strings.NewReader(text + strings.Repeat("x", 100)))
		want, err := http.ReadResponse(r, &http.Request{Method: "GET"})
		if err != nil {
			t.Fatalf("%q: %+v, but net/http: %v", text, got, err)
		}
		n, err := io.Copy(io.Discard, want.Body)
		left, _ := io.ReadAll(r)
		if err != nil || want.StatusCode != got.status || int(n) != got.bodyBytes || want.Close ||
			!bytes.Equal(left, []byte((text + strings.Repeat("x", 100))[got.headBytes+got.bodyBytes:])) {
			t.Fatalf("%q: %+v, but net/http: %d, %d bytes, close %v, %v", text, got, want.StatusCode, n, want.Close, err)
		}
	}
	if knew < 1000 {
		t.Errorf("only %d answers were ordinary", knew)
	}
}
