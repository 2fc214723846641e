package nspawn

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/vishvananda/netns"

	"lab/atomicfile"
)

const (
	recordFile = "record.json"
	readyFile  = "forwarder.ready" // there once it listens on every address
)

// startForwarder starts the process that serves the forwards, unless it runs
// with these. The process is no child that anyone waits for: it has its own
// session and none of the caller's files but the lock, which it holds until its
// record is written.
func startForwarder(ctx context.Context, held *os.File, dir string, spec NetworkSpec, log io.Writer) error {
	forwards, err := json.Marshal(spec.Forwards)
	if err != nil {
		return err
	}
	path, logFile := filepath.Join(dir, recordFile), filepath.Join(dir, "forwarder.log")
	old, err := readRecord(path)
	if err == nil && old.Process.alive() && old.Digest == string(forwards) {
		if err := waitForwarder(ctx, dir, old.Process); err != nil {
			return err
		}
		old.Incarnation = spec.Incarnation
		return old.write(path)
	}
	stop(old.Process)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	output, err := os.Create(logFile)
	if err != nil {
		return err
	}
	defer output.Close()
	if err := os.RemoveAll(filepath.Join(dir, readyFile)); err != nil {
		return err
	}
	cmd := exec.Command(self, append([]string{"network", "serve"}, serveArgs(dir, spec, string(forwards))...)...)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.ExtraFiles = []*os.File{held}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }()
	p, err := identify(cmd.Process.Pid)
	if err == nil {
		err = waitForwarder(ctx, dir, p)
	}
	if err != nil {
		return fmt.Errorf("forward loopback addresses into network %s: %w: %s", spec.Name, err, fileTail(logFile, 5))
	}
	fmt.Fprintf(log, "network %s: up, %d forwards\n", spec.Name, len(spec.Forwards))
	return nil
}

func waitForwarder(ctx context.Context, dir string, p process) error {
	for {
		if _, err := os.Stat(filepath.Join(dir, readyFile)); err == nil {
			return nil
		}
		if !p.alive() {
			return fmt.Errorf("the forwarder ended")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// serveArgs are what follows `lab network serve` in the command line.
func serveArgs(dir string, spec NetworkSpec, forwards string) []string {
	const lockFD = 3 // the first of ExtraFiles
	return []string{dir, spec.Name, strconv.Itoa(spec.Incarnation), forwards, strconv.Itoa(lockFD)}
}

// Serve runs the forwarder, with the arguments that NetworkUp gives it.
func Serve(ctx context.Context, args []string) error {
	if len(args) != 5 {
		return fmt.Errorf("%d arguments, want 5", len(args))
	}
	incarnation, err := strconv.Atoi(args[2])
	if err != nil {
		return fmt.Errorf("incarnation: %w", err)
	}
	var forwards []Forward
	if err := json.Unmarshal([]byte(args[3]), &forwards); err != nil {
		return fmt.Errorf("forwards: %w", err)
	}
	fd, err := strconv.Atoi(args[4])
	if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	return serve(ctx, args[0], args[1], incarnation, forwards, os.NewFile(uintptr(fd), "lock"))
}

// serve is the forwarder: it records itself in dir, gives the lock back, listens
// on the forwards' loopback addresses and relays each connection into the
// network. It ends with ctx, and by itself when the record names another.
func serve(ctx context.Context, dir, network string, incarnation int, forwards []Forward, held *os.File) error {
	self, err := identify(os.Getpid())
	if err != nil {
		return err
	}
	raw, err := json.Marshal(forwards)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, recordFile)
	if err := (record{incarnation, self, string(raw)}).write(path); err != nil {
		return err
	}
	if err := held.Close(); err != nil {
		return err
	}
	var listeners []net.Listener
	for _, f := range forwards {
		l, err := net.Listen("tcp", f.Listen)
		if err != nil {
			return fmt.Errorf("%w; is another lab up with the same loopback range? set lab:infra.network.loopback", err)
		}
		defer l.Close()
		listeners = append(listeners, l)
	}
	if err := atomicfile.Write(filepath.Join(dir, readyFile), nil, 0o600); err != nil {
		return err
	}
	for i, l := range listeners {
		go accept(l, network, forwards[i].To)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(2 * time.Second):
			if r, err := readRecord(path); err != nil || r.Process != self {
				return nil
			}
		}
	}
}

func accept(l net.Listener, network, to string) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		go relay(client, network, to)
	}
}

func relay(client net.Conn, network, to string) {
	defer client.Close()
	server, err := dial(network, to, 5*time.Second)
	if err != nil {
		return // the client sees the connection closed, as of a machine that is off
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(client, server)
}

// dial opens a TCP connection from inside the network.
func dial(network, address string, timeout time.Duration) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine, inside the namespace
		ns, err := netns.GetFromName(network)
		if err != nil {
			done <- result{nil, fmt.Errorf("network namespace %s: %w", network, err)}
			return
		}
		defer ns.Close()
		if err := netns.Set(ns); err != nil {
			done <- result{nil, err}
			return
		}
		conn, err := net.DialTimeout("tcp", address, timeout)
		done <- result{conn, err}
	}()
	r := <-done
	return r.conn, r.err
}

// stop ends a process of ours and waits until it is gone.
func stop(p process) {
	if !p.alive() {
		return
	}
	_ = syscall.Kill(p.PID, syscall.SIGTERM)
	for i := 0; p.alive(); i++ {
		if i == 100 {
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
