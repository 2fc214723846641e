package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"lab/servicetest"
)

// served is a server that listens, the end of its context, and what it ended with.
func served(t *testing.T, c config) (address string, stop func(), ended <-chan error) {
	t.Helper()
	s, err := newServer(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	done := make(chan error, 1)
	go func() { done <- s.serve(ctx, listener) }()
	return listener.Addr().String(), stop, done
}

// ask sends a request on a connection, and tells whether the answer was to be its
// last.
func ask(t *testing.T, conn net.Conn, from *bufio.Reader) (last bool) {
	t.Helper()
	if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	got, err := http.ReadResponse(from, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	if body, err := io.ReadAll(got.Body); err != nil || got.StatusCode != 200 || string(body) != "ok\n" {
		t.Fatalf("status %d, %q, %v; want ok", got.StatusCode, body, err)
	}
	return got.Close
}

func dial(t *testing.T, address string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn, bufio.NewReader(conn)
}

func TestADrainTellsEachClientAndEndsWithTheLast(t *testing.T) {
	c := newConfig(t)
	c.drain = time.Hour // it must end by itself
	address, stop, ended := served(t, c)
	idle, fromIdle := dial(t, address)
	if ask(t, idle, fromIdle) {
		t.Fatal("before the drain an answer was the last")
	}
	stop()
	// A client that comes now is let in, once; when it is told that this was its
	// last, the drain has begun.
	if err := servicetest.Until(func() error {
		late, fromLate := dial(t, address)
		defer late.Close()
		if !ask(t, late, fromLate) {
			return errors.New("the drain has not begun")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		t.Fatalf("it ended with %v while a client was connected", err)
	default:
	}
	if !ask(t, idle, fromIdle) {
		t.Error("a client was not told that its answer was the last")
	}
	if n, err := idle.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("after the last answer: %d bytes, %v; want the end", n, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestADrainEndsInTimeWhateverItsClientsDo(t *testing.T) {
	c := newConfig(t)
	c.drain = 10 * time.Millisecond
	address, stop, ended := served(t, c)
	idle, from := dial(t, address)
	ask(t, idle, from)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestADrainOfNobodyIsNone(t *testing.T) {
	c := newConfig(t)
	c.drain = time.Hour
	_, stop, ended := served(t, c)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
