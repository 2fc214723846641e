package nspawn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netns"
)

// bridge is the bridge's name inside each network namespace.
const bridge = "br0"

// owner is the record on this computer of whose network a name is.
type owner struct {
	StateDir string `json:"stateDir"`
}

func ownerFile(network string) string { return filepath.Join("/run/lab", network+".json") }

// claim takes the network's name for stateDir, or says whose it is.
func claim(network, stateDir string) error {
	raw, err := os.ReadFile(ownerFile(network))
	if errors.Is(err, os.ErrNotExist) {
		raw, err = json.Marshal(owner{stateDir})
		if err != nil {
			return err
		}
		return writeFile(ownerFile(network), raw, 0o644)
	}
	var o owner
	if err := errors.Join(err, json.Unmarshal(raw, &o)); err != nil {
		return fmt.Errorf("read %s: %w", ownerFile(network), err)
	}
	if o.StateDir != stateDir {
		return fmt.Errorf("network %s belongs to the lab whose state is in %s; run make down there, or set lab:infra.network.name to another name here", network, o.StateDir)
	}
	return nil
}

// NetworkUp makes the network, or brings it to the spec.
func NetworkUp(ctx context.Context, stateDir string, spec NetworkSpec, log io.Writer) error {
	dir := networkDir(stateDir, spec.Name)
	unlock, err := lock(filepath.Join(dir, "lock"))
	if err != nil {
		return err
	}
	defer unlock()
	if err := claim(spec.Name, stateDir); err != nil {
		return err
	}
	gateway := netip.PrefixFrom(netip.MustParseAddr(spec.Gateway), netip.MustParsePrefix(spec.Subnet).Bits())
	if _, err := os.Stat("/run/netns/" + spec.Name); err != nil {
		if err := command(ctx, "ip", "netns", "add", spec.Name); err != nil {
			return err
		}
	}
	if command(ctx, "ip", "-n", spec.Name, "link", "show", bridge) != nil {
		if err := command(ctx, "ip", "-n", spec.Name, "link", "add", bridge, "type", "bridge"); err != nil {
			return err
		}
	}
	for _, args := range [][]string{
		{"link", "set", "lo", "up"},
		{"addr", "replace", gateway.String(), "dev", bridge},
		{"link", "set", bridge, "up"},
	} {
		if err := command(ctx, "ip", append([]string{"-n", spec.Name}, args...)...); err != nil {
			return err
		}
	}
	return startForwarder(ctx, dir, spec, log)
}

// NetworkDown removes the network and its record.
func NetworkDown(ctx context.Context, stateDir, network string) error {
	dir := networkDir(stateDir, network)
	if err := claim(network, stateDir); err != nil {
		return err
	}
	if r, err := readRecord(filepath.Join(dir, "record.json")); err == nil {
		stop(r.Process)
	}
	if _, err := os.Stat("/run/netns/" + network); err == nil {
		if err := command(ctx, "ip", "netns", "del", network); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.Remove(ownerFile(network)); err != nil {
		return err
	}
	_ = os.Remove(filepath.Dir(ownerFile(network))) // stays when another network is there
	return nil
}

// startForwarder starts the process that serves the forwards, unless it runs
// with these.
func startForwarder(ctx context.Context, dir string, spec NetworkSpec, log io.Writer) error {
	forwards, err := json.Marshal(spec.Forwards)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "record.json")
	old, err := readRecord(path)
	if err == nil && old.Process.alive() {
		if old.Digest == string(forwards) {
			old.Incarnation = max(old.Incarnation, spec.Incarnation)
			return old.write(path)
		}
		stop(old.Process)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	console, err := os.Create(filepath.Join(dir, "forwarder.log"))
	if err != nil {
		return err
	}
	defer console.Close()
	ready := filepath.Join(dir, "forwarder.ready")
	_ = os.Remove(ready)
	cmd := exec.Command(self, "network", "serve", spec.Name, string(forwards), ready)
	cmd.Stdout, cmd.Stderr = console, console
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	p, err := identify(cmd.Process.Pid)
	if err != nil {
		return err
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	for {
		if _, err := os.Stat(ready); err == nil {
			break
		}
		select {
		case <-exited:
			text, _ := os.ReadFile(console.Name())
			return fmt.Errorf("forward loopback addresses into network %s: %s", spec.Name, tail(string(text), 5))
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	fmt.Fprintf(log, "network %s: up, %d forwards\n", spec.Name, len(spec.Forwards))
	return record{spec.Incarnation, p, string(forwards)}.write(path)
}

// Serve listens on the forwards' loopback addresses and relays each connection
// into the network, until ctx ends. It creates the file ready once it listens.
func Serve(ctx context.Context, network string, forwards []Forward, ready string) error {
	var listeners []net.Listener
	for _, f := range forwards {
		l, err := net.Listen("tcp", f.Listen)
		if err != nil {
			return fmt.Errorf("listen on %s: %w; is another lab up with the same loopback range? set lab:infra.network.loopback", f.Listen, err)
		}
		defer l.Close()
		listeners = append(listeners, l)
	}
	if err := writeFile(ready, nil, 0o600); err != nil {
		return err
	}
	for i, l := range listeners {
		go accept(l, network, forwards[i].To)
	}
	<-ctx.Done()
	return nil
}

func accept(l net.Listener, network, to string) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
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
		}()
	}
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

func command(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
