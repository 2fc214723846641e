package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

const (
	database = data + "/server/db/nodes.json"
	events   = data + "/server/events" // what changed, a line each: the test reads it
)

// node is one of the cluster's.
type node struct {
	Version     string            `json:"version"`
	Cordoned    bool              `json:"cordoned"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	Taints      map[string]string `json:"taints"` // KEY:EFFECT → VALUE
}

// server is the API and what it keeps.
type server struct {
	config config
	ca     string
	mu     sync.Mutex
	nodes  map[string]*node
}

func newServer(c config, ca string) (*server, error) {
	s := &server{config: c, ca: ca, nodes: map[string]*node{}}
	text, err := os.ReadFile(database)
	if os.IsNotExist(err) {
		return s, os.MkdirAll(filepath.Dir(database), 0o700)
	}
	if err != nil {
		return nil, err
	}
	return s, json.Unmarshal(text, &s.nodes)
}

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /cacerts", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, s.ca) })
	mux.HandleFunc("POST /register", func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if user == "node" && password != s.config.AgentToken || user == "server" && password != s.config.Token {
			http.Error(w, "wrong token", http.StatusUnauthorized)
			return
		}
		var who struct{ Name, Version string }
		err := json.NewDecoder(r.Body).Decode(&who)
		if err == nil {
			err = s.register(who.Name, who.Version)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	})
	mux.HandleFunc("POST /kubectl", func(w http.ResponseWriter, r *http.Request) {
		user, _, _ := r.BasicAuth()
		var args []string
		if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		out, err := s.kubectl(user, args)
		if err != nil {
			http.Error(w, "Error from server: "+err.Error(), http.StatusBadRequest)
			return
		}
		fmt.Fprint(w, out)
	})
	return mux
}

// register notes a node that has started.
func (s *server) register(name, version string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nodes[name] == nil {
		s.nodes[name] = &node{Labels: map[string]string{}, Annotations: map[string]string{}, Taints: map[string]string{}}
	}
	s.nodes[name].Version = version
	return s.note("start " + name + " " + version)
}

// note writes what changed, and the nodes as they are.
func (s *server) note(event string) error {
	f, err := os.OpenFile(events, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := fmt.Fprintln(f, event); err != nil {
		return err
	}
	text, err := json.Marshal(s.nodes)
	if err != nil {
		return err
	}
	return os.WriteFile(database, text, 0o600)
}

// kubectl answers one call.
func (s *server) kubectl(user string, args []string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if self, ok := strings.CutPrefix(user, "node:"); ok && (len(args) < 3 || args[0] != "get" || args[1] != "node" || args[2] != self) {
		return "", fmt.Errorf("%s may not %q", user, args)
	}
	if args[0] == "get" {
		return s.get(args[1:])
	}
	name := args[1]
	if name == "node" {
		name = args[2]
	}
	n := s.nodes[name]
	if n == nil {
		return "", fmt.Errorf("nodes %q not found", name)
	}
	event := args[0] + " " + name
	switch args[0] {
	case "drain":
		n.Cordoned = true
	case "uncordon":
		n.Cordoned = false
	case "delete":
		delete(s.nodes, name)
	case "label":
		change(n.Labels, args[4:])
	case "annotate":
		change(n.Annotations, args[4:])
	case "taint":
		if err := n.taint(args[4:]); err != nil {
			return "", err
		}
	default:
		return "", fmt.Errorf("unknown call %q", args)
	}
	return event + "\n", s.note(event)
}

// get is the part of kubectl get that lab's scripts use.
func (s *server) get(args []string) (string, error) {
	switch strings.Join(args, " ") {
	case "--raw /readyz":
		return "ok", nil
	case "nodes --no-headers":
		var b strings.Builder
		for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
			status := "Ready"
			if s.nodes[name].Cordoned {
				status += ",SchedulingDisabled"
			}
			fmt.Fprintf(&b, "%s %s <none> 1m %s\n", name, status, s.nodes[name].Version)
		}
		return b.String(), nil
	}
	n, output := s.nodes[args[1]], args[len(args)-1]
	if n == nil && slices.Contains(args, "--ignore-not-found") {
		return "", nil
	}
	if n == nil {
		return "", fmt.Errorf("nodes %q not found", args[1])
	}
	switch key, isAnnotation := strings.CutPrefix(strings.TrimSuffix(output, "}"), "--output=jsonpath={.metadata.annotations."); {
	case isAnnotation:
		return n.Annotations[key], nil
	case output == "--output=name":
		return "node/" + args[1] + "\n", nil
	case strings.Contains(output, ".status.conditions"):
		return "True " + n.Version + " standin is ready", nil
	case strings.Contains(output, ".spec.taints"):
		return strings.Join(slices.Sorted(maps.Keys(n.Taints)), "\n"), nil
	}
	return "", fmt.Errorf("unknown output %q", output)
}

// change applies KEY=VALUE and KEY-.
func change(values map[string]string, changes []string) {
	for _, c := range changes {
		if key, value, ok := strings.Cut(c, "="); ok {
			values[key] = value
		} else {
			delete(values, strings.TrimSuffix(c, "-"))
		}
	}
}

// taint applies KEY=VALUE:EFFECT and KEY:EFFECT-. One that is not there can't be
// taken away, as the real one has it.
func (n *node) taint(changes []string) error {
	for _, c := range changes {
		if key, gone := strings.CutSuffix(c, "-"); gone {
			if _, ok := n.Taints[key]; !ok {
				return fmt.Errorf("taint %q not found", key)
			}
			delete(n.Taints, key)
			continue
		}
		head, effect, _ := strings.Cut(c, ":")
		key, value, _ := strings.Cut(head, "=")
		n.Taints[key+":"+effect] = value
	}
	return nil
}
