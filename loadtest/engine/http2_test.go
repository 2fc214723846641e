package engine

import (
	"bytes"
	"io"
	"net"
	"slices"
	"testing"

	h2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"lab/loadtest/analysis"
)

// stream is a request that a scripted server of HTTP/2 got whole.
type stream struct {
	id   uint32
	body string
}

// session is one connection of a scripted server.
type session struct {
	*h2.Framer
	t    *testing.T
	conn net.Conn
}

// next reads up to the end of the next request; false at the connection's end.
func (s session) next() (stream, bool) {
	var body []byte
	for {
		f, err := s.ReadFrame()
		if err != nil {
			return stream{}, false
		}
		switch f := f.(type) {
		case *h2.SettingsFrame:
			if !f.IsAck() {
				_ = s.WriteSettingsAck()
			}
		case *h2.HeadersFrame:
			if f.StreamEnded() {
				return stream{f.StreamID, ""}, true
			}
		case *h2.DataFrame:
			body = append(body, f.Data()...)
			if f.StreamEnded() {
				return stream{f.StreamID, string(body)}, true
			}
		}
	}
}

// two answers one request, then reads two that are in flight together, the first one
// first.
func (s session) two() (first, second stream) {
	if opening, ok := s.next(); ok {
		s.answer(opening.id)
	}
	first, _ = s.next()
	second, ok := s.next()
	if !ok {
		s.t.Error("the connection ended before its second request")
	}
	if second.id < first.id {
		return second, first
	}
	return first, second
}

func (s session) answer(id uint32) {
	var block bytes.Buffer
	if err := hpack.NewEncoder(&block).WriteField(hpack.HeaderField{Name: ":status", Value: "204"}); err != nil {
		s.t.Error(err)
	}
	_ = s.WriteHeaders(h2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true}) // the client may be gone
}

func (s session) answerAll() {
	for {
		r, ok := s.next()
		if !ok {
			return
		}
		s.answer(r.id)
	}
}

// scripted serves HTTP/2 in clear text: a script for each connection, the last one
// for all that follow.
func scripted(t *testing.T, scripts ...func(session)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for i := 0; ; i++ {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if _, err := io.ReadFull(conn, make([]byte, len(h2.ClientPreface))); err != nil {
					return
				}
				s := session{h2.NewFramer(conn, conn), t, conn}
				_ = s.WriteSettings()
				scripts[min(i, len(scripts)-1)](s)
			}()
		}
	}()
	return "http://" + listener.Addr().String()
}

// A server that goes away says which requests it has not processed: those are sent
// again on a new connection, whatever their method, and nobody's request fails. What
// it had taken on and did not answer is lost.
func TestHTTP2ServerThatGoesAway(t *testing.T) {
	for _, row := range []struct {
		name    string
		method  string
		script  func(session)
		want    []string // kinds of the two requests, sorted
		another bool     // whether the second connection gets a request
	}{
		{"gracefully, GET", "GET", goAway(h2.ErrCodeNo, true), []string{"", ""}, true},
		{"gracefully, POST with a body", "POST", goAway(h2.ErrCodeNo, true), []string{"", ""}, true},
		{"too busy, and answers what it took", "POST", goAway(h2.ErrCodeEnhanceYourCalm, true), []string{"", ""}, true},
		{"and does not answer what it took", "GET", goAway(h2.ErrCodeNo, false), []string{"", "reset"}, true},
		{"it refuses a stream once", "POST", refuse, []string{"", ""}, false},
		{"without a word", "GET", func(s session) { s.two() }, []string{"reset", "reset"}, false},
	} {
		bodies := make(chan string, 10)
		url := scripted(t, row.script, func(s session) {
			for {
				r, ok := s.next()
				if !ok {
					return
				}
				bodies <- r.body
				s.answer(r.id)
			}
		})
		sc := scenario("/")
		sc.Protocol, sc.TimeoutMs = analysis.ProtocolHTTP2, 20_000
		sc.Endpoints[0].Method = row.method
		if row.method == "POST" {
			sc.Endpoints[0].Body = `{"a":1}`
		}
		e := newEngine(t, url, sc)
		if kind := e.http2.do(&e.endpoints[0], e.timeout); kind != "" {
			t.Fatalf("%s: the request that opens the connection: %s", row.name, kind)
		}
		kinds := make(chan string, 2)
		for range 2 {
			go func() { kinds <- e.http2.do(&e.endpoints[0], e.timeout) }()
		}
		got := []string{<-kinds, <-kinds}
		slices.Sort(got)
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
		select {
		case body := <-bodies:
			if !row.another || body != sc.Endpoints[0].Body || len(bodies) > 0 {
				t.Errorf("%s: a new connection got the body %q and %d requests more, want just one again: %t", row.name, body, len(bodies), row.another)
			}
		default:
			if row.another {
				t.Errorf("%s: nothing came over a new connection", row.name)
			}
		}
	}
}

// goAway takes on the first of two requests, says so, and perhaps answers it.
func goAway(code h2.ErrCode, answers bool) func(session) {
	return func(s session) {
		first, _ := s.two()
		_ = s.WriteGoAway(first.id, code, nil)
		if answers {
			s.answer(first.id)
			s.answerAll() // until the client closes it
		}
	}
}

// refuse refuses the second of two requests without having looked at it.
func refuse(s session) {
	first, second := s.two()
	_ = s.WriteRSTStream(second.id, h2.ErrCodeRefusedStream)
	s.answer(first.id)
	s.answerAll()
}

// A server that goes away again and again during a step, as one does whose
// connections have an age, costs no request and none is counted twice.
func TestStepOverConnectionsThatGoAway(t *testing.T) {
	url := scripted(t, func(s session) {
		last := uint32(0)
		for range 10 {
			r, ok := s.next()
			if !ok {
				return
			}
			s.answer(r.id)
			last = r.id
		}
		_ = s.WriteGoAway(last, h2.ErrCodeNo, nil)
		_, _ = io.Copy(io.Discard, s.conn) // until the client closes it
	})
	sc := scenario("/")
	sc.Protocol = analysis.ProtocolHTTP2
	e := newEngine(t, url, sc)
	step := e.Step(t.Context(), analysis.Probe{OfferedRPS: 100, Seconds: 2})
	if step.Arrivals != 200 || step.Failed != 0 || step.Dropped != 0 || step.Completed > 200 || step.Completed < 180 {
		t.Errorf("%d arrivals, %d completed, %d dropped, errors %v", step.Arrivals, step.Completed, step.Dropped, step.Errors)
	}
}
