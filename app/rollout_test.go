package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"lab/servicetest"
)

// process is a part of the workload as a process of its own, with real signals.
type process struct {
	*exec.Cmd
	address string // of web
	stderr  bytes.Buffer
}

func startPart(t *testing.T, part string, c config) *process {
	t.Helper()
	address, err := servicetest.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{Cmd: exec.Command(os.Args[0]), address: address}
	p.Env = append(os.Environ(), partOfTest+"="+part, "LISTEN="+address, "DATABASE_URL="+c.databaseURL, "REDIS_URL="+c.redisURL,
		"CONN_MAX_AGE_SECONDS=60", "DRAIN_SECONDS=60")
	p.Stderr = &p.stderr
	p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Kill() }) // it has ended where all went well
	return p
}

func (p *process) ready() error {
	got, err := http.Get("http://" + p.address + "/readyz")
	if err != nil {
		return err
	}
	defer got.Body.Close()
	if got.StatusCode != 200 {
		return fmt.Errorf("status %d", got.StatusCode)
	}
	return nil
}

// terminate asks it to end, as a node does, and wants status 0.
func (p *process) terminate(t *testing.T) {
	t.Helper()
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Errorf("it ended with %v: %s", err, p.stderr.String())
	}
}

// service is what a cluster's Service is to its clients: a new connection goes to
// the pod that is chosen then, and stays with it.
type service struct {
	net.Listener
	pod atomic.Pointer[string]
}

func newService(t *testing.T, pod string) *service {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &service{Listener: listener}
	s.pod.Store(&pod)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go s.join(client)
		}
	}()
	return s
}

func (s *service) join(client net.Conn) {
	defer client.Close()
	pod, err := net.Dial("tcp", *s.pod.Load())
	if err != nil {
		return
	}
	defer pod.Close()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, pod}, {pod, client}} {
		both.Go(func() {
			_, _ = io.Copy(way[1], way[0]) // the end of either side is passed on
			_ = way[1].(*net.TCPConn).CloseWrite()
		})
	}
	both.Wait()
}

// load is clients that write, one request after the other, each on a connection
// that it keeps. A write is not sent again by itself when its connection ends.
type load struct {
	stop   context.CancelFunc
	all    sync.WaitGroup
	done   []atomic.Int64 // answers, by client
	failed chan string
}

func startLoad(t *testing.T, address string, clients int) *load {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	l := &load{stop: stop, done: make([]atomic.Int64, clients), failed: make(chan string, clients)}
	t.Cleanup(stop)
	for i := range clients {
		l.all.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for ctx.Err() == nil {
				if problem := interactOnce(client, address); problem != "" {
					l.failed <- problem
					return
				}
				l.done[i].Add(1)
			}
		})
	}
	return l
}

func interactOnce(client *http.Client, address string) (problem string) {
	got, err := client.Post("http://"+address+"/api/items/1/interactions", "application/json", strings.NewReader(`{"kind":"view"}`))
	if err != nil {
		return err.Error()
	}
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	if err != nil || got.StatusCode != http.StatusCreated {
		return fmt.Sprintf("status %d, %s, %v", got.StatusCode, body, err)
	}
	return ""
}

// more waits until every client has had so many more answers: after that each has
// its connection to where new ones went before.
func (l *load) more(t *testing.T, n int64) {
	t.Helper()
	for i := range l.done {
		from := l.done[i].Load()
		if err := servicetest.Until(func() error {
			if got := l.done[i].Load() - from; got < n && len(l.failed) == 0 {
				return fmt.Errorf("client %d had %d answers, want %d", i, got, n)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
}

func (l *load) total() (n int64) {
	for i := range l.done {
		n += l.done[i].Load()
	}
	return n
}

// A roll-out as a cluster does it: the new one is ready, new connections go to it,
// and then the old one is asked to end.
func TestARollOutUnderLoadLosesNoRequest(t *testing.T) {
	c := newMigrated(t)
	pods := []*process{startPart(t, "web", c), startPart(t, "web", c), startPart(t, "web", c)}
	for _, p := range pods {
		if err := servicetest.Until(p.ready); err != nil {
			t.Fatalf("%v: %s", err, p.stderr.String())
		}
	}
	http.DefaultClient.CloseIdleConnections() // those of the questions above
	front := newService(t, pods[0].address)
	l := startLoad(t, front.Addr().String(), 8)
	for i, old := range pods[:2] {
		l.more(t, 10)
		front.pod.Store(&pods[i+1].address)
		old.terminate(t)
	}
	l.more(t, 10)
	l.stop()
	l.all.Wait()
	close(l.failed)
	for problem := range l.failed {
		t.Error(problem)
	}
	// Each answer is a write that was made, and none was made twice.
	if got, want := queryText(t, c.databaseURL, "SELECT count(*)::text FROM catalogue.interaction"), fmt.Sprint(seedInteractions+l.total()); got != want {
		t.Errorf("%s interactions, want %s", got, want)
	}
	pods[2].terminate(t)
}

func TestAWorkerFinishesItsJobWhenItIsAskedToEnd(t *testing.T) {
	c := newMigrated(t)
	r, err := openRedis(c)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	// A lock holds the job in the database until the worker has been asked.
	holder, err := pgx.Connect(t.Context(), c.databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close(context.Background())
	if _, err := holder.Exec(t.Context(), "BEGIN; LOCK TABLE catalogue.statistic"); err != nil {
		t.Fatal(err)
	}
	push(t, r, 1)
	worker := startPart(t, "worker", c)
	if err := servicetest.Until(func() error {
		if queryText(t, c.databaseURL, "SELECT count(*)::text FROM pg_locks l JOIN pg_database d ON d.oid = l.database WHERE d.datname = current_database() AND NOT granted") != "1" {
			return errors.New("the job does not wait yet")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := worker.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := worker.Wait(); err != nil {
		t.Errorf("it ended with %v: %s", err, worker.stderr.String())
	}
	if done, err := r.HGet(t.Context(), "jobs:done", "recount").Result(); err != nil || done != "1" {
		t.Errorf("%s jobs are done, %v; want 1", done, err)
	}
	if left := length(t, r, queueKey); left != 0 {
		t.Errorf("%d jobs are left", left)
	}
}

func TestBeatEndsWhenItIsAsked(t *testing.T) {
	c := newConfig(t)
	r, err := openRedis(c)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	beat := startPart(t, "beat", c)
	if err := servicetest.Until(func() error {
		if length(t, r, queueKey) == 0 {
			return errors.New("it has not beaten yet")
		}
		return nil
	}); err != nil {
		t.Fatalf("%v: %s", err, beat.stderr.String())
	}
	beat.terminate(t)
}
