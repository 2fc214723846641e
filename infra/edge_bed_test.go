package infra

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lab/servicetest"
)

// inNamespace runs the rest of a test in a process with a network of its own: the
// test's binary once more, which this tells to go on.
func inNamespace(t *testing.T) (goOn bool) {
	t.Helper()
	const mark = "LAB_TEST_IN_NAMESPACE"
	if os.Getenv(mark) == t.Name() {
		return true
	}
	cmd := exec.Command("unshare", "--net", os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=120s")
	cmd.Env = append(os.Environ(), mark+"="+t.Name())
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
	return false
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// edgeNode stands for a node of a cluster behind its NodePort.
type edgeNode struct {
	answer atomic.Value // http.HandlerFunc
	asked  atomic.Int64
	server http.Server
}

// serve answers on a listener until the test ends.
func (n *edgeNode) serve(t *testing.T, l net.Listener) {
	n.answer.Store(http.HandlerFunc(answerOK))
	n.server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.asked.Add(1)
		n.answer.Load().(http.HandlerFunc)(w, r)
	})
	go n.server.Serve(l)
	t.Cleanup(func() { n.server.Close() })
}

func answerOK(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") }

// reset takes the request and ends the connection without a word.
func reset(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	panic(http.ErrAbortHandler)
}

// meet answers once as many requests as parties are there together, so that each
// holds a connection of its own.
func meet(parties int) http.HandlerFunc {
	var there sync.WaitGroup
	there.Add(parties)
	return func(w http.ResponseWriter, r *http.Request) {
		there.Done()
		there.Wait()
		answerOK(w, r)
	}
}

// machine is a network namespace joined to the test's by a cable.
type machine struct{ namespace, address string }

// newMachine gives the namespace, and a listener in it.
func newMachine(t *testing.T, gateway, address string, port int) (machine, net.Listener) {
	t.Helper()
	type opened struct {
		namespace *os.File
		listener  net.Listener
		err       error
	}
	done := make(chan opened)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		var o opened
		if o.err = syscall.Unshare(syscall.CLONE_NEWNET); o.err == nil {
			if o.namespace, o.err = os.Open("/proc/thread-self/ns/net"); o.err == nil {
				o.listener, o.err = (&net.ListenConfig{}).Listen(context.Background(), "tcp4", fmt.Sprintf("0.0.0.0:%d", port))
			}
		}
		done <- o
	}()
	o := <-done
	if o.err != nil {
		t.Fatal(o.err)
	}
	t.Cleanup(func() { o.namespace.Close() })
	m := machine{fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), o.namespace.Fd()), address}
	const ours, theirs = "02:00:00:00:00:01", "02:00:00:00:00:02"
	run(t, "ip", "link", "add", "cable0", "address", ours, "type", "veth", "peer", "name", "cable1", "address", theirs)
	run(t, "ip", "link", "set", "cable1", "netns", m.namespace)
	run(t, "ip", "addr", "add", gateway+"/24", "dev", "cable0")
	run(t, "ip", "link", "set", "cable0", "up")
	// What is sent to it stays on its way when nobody answers for the address.
	run(t, "ip", "neigh", "replace", address, "lladdr", theirs, "dev", "cable0", "nud", "permanent")
	run(t, "nsenter", "--net="+m.namespace, "ip", "link", "set", "cable1", "up")
	m.light(t)
	return m, o.listener
}

// goDark has the machine swallow every packet.
func (m machine) goDark(t *testing.T) {
	t.Helper()
	run(t, "nsenter", "--net="+m.namespace, "ip", "addr", "del", m.address+"/24", "dev", "cable1")
}

func (m machine) light(t *testing.T) {
	t.Helper()
	run(t, "nsenter", "--net="+m.namespace, "ip", "addr", "add", m.address+"/24", "dev", "cable1")
}

// edgeBed is a real nginx with the edge's settings before three nodes. The first
// answers, at the second's address nothing listens, the third is a machine.
type edgeBed struct {
	t        *testing.T
	nodes    [3]edgeNode
	machine  machine
	services servicetest.Services
}

const edgeTestPort = 30080

func newEdgeBed(t *testing.T) *edgeBed {
	b := &edgeBed{t: t}
	run(t, "ip", "link", "set", "lo", "up")
	for _, a := range []string{"10.77.1.1", "10.77.1.2"} {
		run(t, "ip", "addr", "add", a+"/32", "dev", "lo")
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/tcp_retries2", []byte(tcpRetries(3)), 0); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp4", upstream("10.77.1.1", edgeTestPort))
	if err != nil {
		t.Fatal(err)
	}
	b.nodes[0].serve(t, l)
	b.machine, l = newMachine(t, "10.77.2.1", "10.77.2.2", edgeTestPort)
	b.nodes[2].serve(t, l)
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(b.services.Dir, "nginx-log"))
			t.Logf("nginx:\n%s", log)
		}
		b.services.Stop()
	})
	return b
}

// start starts nginx, anew when it runs.
func (b *edgeBed) start(c EdgeConfig) {
	b.t.Helper()
	b.services.Stop()
	b.services = servicetest.Services{}
	settings, err := edgeSettings(c, []string{
		upstream("10.77.1.1", edgeTestPort), upstream("10.77.1.2", edgeTestPort), upstream("10.77.2.2", edgeTestPort),
	})
	if err != nil {
		b.t.Fatal(err)
	}
	for old, now := range map[string]string{
		"pid /run/nginx.pid;": "", "error_log /var/log/nginx/error.log warn;": "error_log stderr warn;",
	} {
		if !strings.Contains(settings, old) {
			b.t.Fatalf("the settings have no %q", old)
		}
		settings = strings.Replace(settings, old, now, 1)
	}
	if err := b.services.StartNginx(settings, "127.0.0.1:80"); err != nil {
		b.t.Fatal(err)
	}
}

var edgeClient = http.Client{Timeout: 30 * time.Second}

// ask is the status of the edge's answer.
func (b *edgeBed) ask(method string) string {
	r, err := http.NewRequest(method, "http://127.0.0.1/", strings.NewReader("order=1"))
	if err != nil {
		return err.Error()
	}
	answer, err := edgeClient.Do(r)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return err.Error()
	}
	return answer.Status
}

// want asks n times, so many at once, and wants every answer to be 200.
func (b *edgeBed) want(method string, n, atOnce int) {
	b.t.Helper()
	var all sync.WaitGroup
	statuses := make(chan string, n)
	for part := range atOnce {
		all.Go(func() {
			for i := part; i < n; i += atOnce {
				statuses <- b.ask(method)
			}
		})
	}
	all.Wait()
	close(statuses)
	counts := map[string]int{}
	for s := range statuses {
		counts[s]++
	}
	if counts["200 OK"] != n {
		b.t.Errorf("of %d times %s: %v", n, method, counts)
	}
}
