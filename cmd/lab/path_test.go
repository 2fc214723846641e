package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/crypto/ssh"

	"lab/hops"
	"lab/servicetest"
)

// startSSHD starts a real sshd on a loopback address, and gives the way in.
func startSSHD(t *testing.T) hops.Host {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("sshd needs root: run the tests as root (sudo make test)")
	}
	dir := t.TempDir()
	key := func(name string) (public, private string) {
		pub, priv, err := ed25519.GenerateKey(nil)
		if err != nil {
			t.Fatal(err)
		}
		block, err := ssh.MarshalPrivateKey(priv, "")
		if err != nil {
			t.Fatal(err)
		}
		line, err := ssh.NewPublicKey(pub)
		if err != nil {
			t.Fatal(err)
		}
		private = string(pem.EncodeToMemory(block))
		for file, text := range map[string]string{name: private, name + ".pub": string(ssh.MarshalAuthorizedKey(line))} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return string(ssh.MarshalAuthorizedKey(line)), private
	}
	hostKey, _ := key("host")
	_, private := key("operator")
	address, err := servicetest.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(address)
	config := fmt.Sprintf("ListenAddress %s\nPort %s\nHostKey %s/host\nAuthorizedKeysFile %s/operator.pub\nStrictModes no\nPermitRootLogin prohibit-password\nPidFile none\n", host, port, dir, dir)
	if err := os.WriteFile(filepath.Join(dir, "config"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	sshd := exec.Command("unshare", "--mount", "sh", "-c", `mount -t tmpfs tmpfs /run && mkdir /run/sshd && exec /usr/sbin/sshd -D -e -f "$0"`, filepath.Join(dir, "config"))
	sshd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	var said bytes.Buffer
	sshd.Stderr = &said
	if err := sshd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = sshd.Process.Signal(syscall.SIGTERM)
		_ = sshd.Wait()
		if t.Failed() {
			t.Logf("sshd:\n%s", said.String())
		}
	})
	h := hops.Host{Name: "edge", Address: host, Port: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address)).Port, User: "root", PrivateKey: private, HostKey: hostKey}
	if err := servicetest.Until(func() error {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return h
}

// server answers with a status, and gives its HOST:PORT.
func server(t *testing.T, status int) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			t.Errorf("asked for %s", r.URL)
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// The hops are tried over a real sshd, from where they begin.
func TestPathNamesTheHopThatFails(t *testing.T) {
	edge := startSSHD(t)
	generator := edge
	generator.Name = "loadgen"
	closed, err := servicetest.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	fine, broken := server(t, 200), server(t, 503)
	whole := hops.Way{
		Edge: edge, Generators: []hops.Host{generator}, Cluster: true, Upstreams: []hops.Upstream{{Name: "a", Address: fine}, {Name: "b", Address: fine}},
		Target: "http://" + fine, URL: "http://" + fine, Request: "/readyz",
	}
	gone := edge
	gone.Port = net.TCPAddrFromAddrPort(netip.MustParseAddrPort(closed)).Port
	stranger := edge
	stranger.HostKey = startSSHD(t).HostKey
	for _, row := range []struct {
		name   string
		change func(*hops.Way)
		oks    string // of the hops, in order
		want   string
	}{
		{"all is well", func(*hops.Way) {}, "ok ok ok ok", ""},
		{"nothing listens at a node", func(w *hops.Way) { w.Upstreams[1].Address = closed }, "ok FAIL ok ok", "the way breaks at edge → node b: Failed to connect"},
		{"no pod is ready", func(w *hops.Way) { w.Upstreams[0].Address = broken }, "FAIL ok ok ok", "the way breaks at edge → node a: 503 Service Unavailable; look at: kubectl --context lab-test get nodes"},
		{"the app is down, on its host", func(w *hops.Way) {
			w.Cluster, w.Upstreams = false, []hops.Upstream{{Name: "app", Address: closed}}
			w.Target, w.URL = "http://"+broken, "http://"+broken
		}, "FAIL FAIL FAIL", "the way breaks at edge → app on app: Failed to connect"},
		{"the edge is down", func(w *hops.Way) { w.Target, w.URL = "http://"+closed, "http://"+closed }, "ok ok FAIL FAIL", "the way breaks at loadgen → edge: Failed to connect"},
		{"this computer does not reach it", func(w *hops.Way) { w.URL = "http://" + closed }, "ok ok ok FAIL", "the way breaks at this computer → edge: "},
		{"the edge's machine is down", func(w *hops.Way) { w.Edge = gone }, "FAIL FAIL ok ok", "the way breaks at edge → node a: no way in to edge by SSH"},
		{"another machine has its address", func(w *hops.Way) { w.Edge = stranger }, "FAIL FAIL ok ok", "the way breaks at edge → node a: no way in to edge by SSH: ssh: handshake failed"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := whole
			w.Upstreams = append([]hops.Upstream(nil), whole.Upstreams...)
			row.change(&w)
			var out bytes.Buffer
			err := tryWay(context.Background(), &out, w, "test", false)
			var oks []string
			for line := range strings.Lines(out.String()) {
				oks = append(oks, strings.Fields(line)[0])
			}
			if got := strings.Join(oks, " "); got != row.oks {
				t.Errorf("%s, want %s\n%s", got, row.oks, out.String())
			}
			if (err == nil) != (row.want == "") || err != nil && !strings.HasPrefix(err.Error(), row.want) {
				t.Errorf("%v, want %q", err, row.want)
			}
			out.Reset()
			_ = tryWay(context.Background(), &out, w, "test", true)
			var report struct {
				OK     bool          `json:"ok"`
				Broken *hops.Answer  `json:"broken"`
				Hops   []hops.Answer `json:"hops"`
			}
			if err := json.Unmarshal(out.Bytes(), &report); err != nil || report.OK != (row.want == "") || (report.Broken == nil) != report.OK || len(report.Hops) != len(oks) {
				t.Errorf("as JSON: %v\n%s", err, out.String())
			}
			if strings.Contains(out.String(), "PRIVATE") {
				t.Error("it prints the key")
			}
		})
	}
}
