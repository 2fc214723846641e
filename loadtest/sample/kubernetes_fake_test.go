package sample

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// apiOfTest speaks the list and watch protocol of a Kubernetes API server: paging,
// bookmarks, forgotten versions, and streams that break when a test says so, which
// the real one does not do on demand.
type apiOfTest struct {
	server *httptest.Server

	mu      sync.Mutex
	version int
	forgot  int                       // versions up to it are no start for a watch
	objects map[string]map[string]any // by path, then uid
	log     []change
	moved   chan struct{} // closed at every change
	lists   map[string]int
	open    int // watches
	refuse  int // status of every answer; 0: none is refused
}

type change struct {
	version    int
	path, kind string
	object     any
}

const testToken = "token-of-the-reader"

func startAPI(t testing.TB) *apiOfTest {
	t.Helper()
	f := &apiOfTest{objects: map[string]map[string]any{}, moved: make(chan struct{}), lists: map[string]int{}}
	f.server = httptest.NewUnstartedServer(f)
	f.server.EnableHTTP2 = true
	f.server.Config.ErrorLog = log.New(io.Discard, "", 0) // a broken stream is meant
	f.server.StartTLS()
	t.Cleanup(func() {
		f.server.CloseClientConnections()
		f.server.Close()
	})
	return f
}

// kubeconfig is the file of an account that may read.
func (f *apiOfTest) kubeconfig(t testing.TB) string {
	t.Helper()
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.server.Certificate().Raw}))
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte(kubeconfigText(f.server.URL, "certificate-authority-data: "+ca, "token: "+testToken)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func kubeconfigText(server, cluster, user string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: lab
contexts: [{name: other, context: {cluster: x, user: y}}, {name: lab, context: {cluster: lab, user: reader}}]
clusters:
- name: lab
  cluster:
    server: %s
    %s
users:
- name: reader
  user:
    %s
`, server, cluster, user)
}

// put creates or changes an object, given as JSON.
func (f *apiOfTest) put(t testing.TB, path, text string) {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	f.change(path, func() change {
		uid := uidOf(o)
		kind := "ADDED"
		if f.objects[path][uid] != nil {
			kind = "MODIFIED"
		}
		if f.objects[path] == nil {
			f.objects[path] = map[string]any{}
		}
		f.objects[path][uid] = o
		return change{kind: kind, object: o}
	})
}

func (f *apiOfTest) remove(path, uid string) {
	f.change(path, func() change {
		o := f.objects[path][uid]
		delete(f.objects[path], uid)
		return change{kind: "DELETED", object: o}
	})
}

func uidOf(o any) string { return o.(map[string]any)["metadata"].(map[string]any)["uid"].(string) }

// change notes what was changed under a new version, and wakes the watches.
func (f *apiOfTest) change(path string, do func() change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.version++
	c := do()
	c.path, c.version = path, f.version
	o := maps.Clone(c.object.(map[string]any)) // a version of its own for each change
	meta := maps.Clone(o["metadata"].(map[string]any))
	meta["resourceVersion"] = strconv.Itoa(f.version)
	o["metadata"] = meta
	c.object = o
	if f.objects[path][uidOf(o)] != nil {
		f.objects[path][uidOf(o)] = o
	}
	f.log = append(f.log, c)
	f.wake()
}

func (f *apiOfTest) wake() {
	close(f.moved)
	f.moved = make(chan struct{})
}

// forget makes every version so far too old.
func (f *apiOfTest) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.version++
	f.forgot = f.version
	f.wake()
}

// fail answers everything with a status, and breaks the streams.
func (f *apiOfTest) fail(status int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse = status
	f.wake()
}

func (f *apiOfTest) counts() (lists map[string]int, open int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.lists), f.open
}

func (f *apiOfTest) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	refuse := f.refuse
	f.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer "+testToken {
		refuse = http.StatusUnauthorized
	}
	if refuse != 0 {
		w.WriteHeader(refuse)
		fmt.Fprint(w, `{"kind":"Status","message":"refused by the test"}`)
		return
	}
	if r.URL.Query().Get("watch") != "" {
		f.serveWatch(w, r)
		return
	}
	f.serveList(w, r)
}

func (f *apiOfTest) serveList(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lists[r.URL.Path]++
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	var items []any
	for _, uid := range slices.Sorted(maps.Keys(f.objects[r.URL.Path])) {
		items = append(items, f.objects[r.URL.Path][uid])
	}
	next, until := "", len(items)
	if limit > 0 && from+limit < len(items) {
		until = from + limit
		next = strconv.Itoa(until)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"metadata": map[string]any{"resourceVersion": strconv.Itoa(f.version), "continue": next}, "items": items[from:until],
	})
}

func (f *apiOfTest) serveWatch(w http.ResponseWriter, r *http.Request) {
	from, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open++
	defer func() { f.open-- }()
	send := func(kind string, object any) {
		_ = json.NewEncoder(w).Encode(map[string]any{"type": kind, "object": object})
		w.(http.Flusher).Flush()
	}
	w.(http.Flusher).Flush() // the header, at once
	for r.Context().Err() == nil {
		if f.refuse != 0 {
			panic(http.ErrAbortHandler) // the stream breaks
		}
		if from < f.forgot {
			send("ERROR", map[string]any{"kind": "Status", "code": http.StatusGone, "message": "too old resource version"})
			return
		}
		for _, c := range f.log {
			if c.version > from && c.path == r.URL.Path {
				send(c.kind, c.object)
			}
		}
		if f.version > from {
			from = f.version
			send("BOOKMARK", map[string]any{"metadata": map[string]any{"resourceVersion": strconv.Itoa(from)}})
		}
		moved := f.moved
		f.mu.Unlock()
		select {
		case <-moved:
		case <-r.Context().Done():
		}
		f.mu.Lock()
	}
}

// until asks again and again until a condition holds, ten seconds at most.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 10 s", what)
		}
		time.Sleep(time.Millisecond)
	}
}
