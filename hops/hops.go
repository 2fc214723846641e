// Package hops is the way of a request into a lab, hop by hop: from the edge to
// every upstream, from the load generators to what they load, from the operator's
// computer to the edge. It says which hop fails first and what to look at there; it
// opens no connection itself.
package hops

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Host is a machine of the lab and the way in by SSH.
type Host struct {
	Name       string `json:"name"`
	Address    string `json:"address"` // that the operator's computer dials
	Port       int    `json:"port"`
	User       string `json:"user"`
	PrivateKey string `json:"privateKey"` // PEM
	HostKey    string `json:"hostKey"`    // as a line of authorized_keys
}

// Upstream is where the edge sends.
type Upstream struct {
	Name    string `json:"name"`    // of its host
	Address string `json:"address"` // HOST:PORT
}

// Way is all of the way into a lab.
type Way struct {
	Edge       Host       `json:"edge"`
	Upstreams  []Upstream `json:"upstreams"`
	Cluster    bool       `json:"cluster"` // the upstreams are nodes
	Generators []Host     `json:"generators"`
	Target     string     `json:"target"`  // that the generators load: a URL without a path
	URL        string     `json:"url"`     // of the edge, for the operator's computer
	Request    string     `json:"request"` // the path that is asked for
}

// Computer is the operator's, as the name of where a hop begins.
const Computer = "this computer"

// Hop is one part of the way.
type Hop struct {
	From string `json:"from"`
	To   string `json:"to"`
	URL  string `json:"url"`
	// Look is what to look at when it fails, and all hops before it don't.
	Look string `json:"look"`
}

func (h Hop) String() string { return h.From + " → " + h.To }

// Hops are the parts of the way, from the workload outwards: a hop that fails makes
// those after it fail.
func (w Way) Hops(stack string) []Hop {
	var all []Hop
	for _, u := range w.Upstreams {
		h := Hop{From: w.Edge.Name, To: "app on " + u.Name, URL: "http://" + u.Address + w.Request,
			Look: fmt.Sprintf("on %s, systemctl status 'lab-app@*' and its journal", u.Name)}
		if w.Cluster {
			_, port, _ := strings.Cut(u.Address, ":")
			h.To = "node " + u.Name
			h.Look = fmt.Sprintf("kubectl --context lab-%s get nodes, then get services,pods --all-namespaces --output wide: is %s Ready, has a Service the node port %s, are its pods Ready; then on %s the journal of its unit",
				stack, u.Name, port, u.Name)
		}
		all = append(all, h)
	}
	for _, g := range w.Generators {
		all = append(all, Hop{From: g.Name, To: "edge", URL: w.Target + w.Request,
			Look: fmt.Sprintf("on %s, systemctl status nginx and /var/log/nginx/error.log; the network between %s and it", w.Edge.Name, g.Name)})
	}
	return append(all, Hop{From: Computer, To: "edge", URL: w.URL + w.Request,
		Look: fmt.Sprintf("the network between this computer and %s; local machines are reached through a process of the lab's, which pulumi up starts again", w.Edge.Name)})
}

// Answer is what came of a hop.
type Answer struct {
	Hop
	OK      bool    `json:"ok"`
	Status  int     `json:"status,omitempty"` // of HTTP; 0: none came
	Seconds float64 `json:"seconds"`
	Error   string  `json:"error,omitempty"` // why there is no status
}

// Answered is an answer with a status: an error of the server's is no way through.
func (h Hop) Answered(status int, seconds float64) Answer {
	a := Answer{Hop: h, OK: status < http.StatusInternalServerError, Status: status, Seconds: seconds}
	if !a.OK {
		a.Error = strings.TrimSpace(fmt.Sprintf("%d %s", status, http.StatusText(status)))
	}
	return a
}

// Failed is no answer.
func (h Hop) Failed(why string, seconds float64) Answer {
	return Answer{Hop: h, Seconds: seconds, Error: why}
}

// Line is an answer in words.
func (a Answer) Line() string {
	if a.OK {
		return fmt.Sprintf("ok    %-32s %d  %4.0f ms  %s", a.Hop, a.Status, a.Seconds*1000, a.URL)
	}
	return fmt.Sprintf("FAIL  %-32s %s  (%.0f ms)  %s", a.Hop, a.Error, a.Seconds*1000, a.URL)
}

// Broken is the first hop that failed. nil: none did.
func Broken(all []Answer) *Answer {
	for i := range all {
		if !all[i].OK {
			return &all[i]
		}
	}
	return nil
}

// Patience is how long an answer is waited for.
const Patience = 5 * time.Second

// Script asks for the URLs of hops one after the other, on the host where they
// begin, and prints a line for each.
func Script(hops []Hop) string {
	var b strings.Builder
	for _, h := range hops {
		fmt.Fprintf(&b, "curl --silent --noproxy '*' --output /dev/null --max-time %d --write-out '%%{http_code} %%{time_total} %%{errormsg}\\n' '%s' || true\n",
			int(Patience.Seconds()), strings.ReplaceAll(h.URL, "'", "'\\''"))
	}
	return b.String()
}

// Read reads what Script printed. A hop without a line is one that was not asked.
func Read(hops []Hop, stdout string) []Answer {
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	var all []Answer
	for i, h := range hops {
		if i >= len(lines) {
			all = append(all, h.Failed("was not asked", 0))
			continue
		}
		all = append(all, read(h, lines[i]))
	}
	return all
}

func read(h Hop, line string) Answer {
	code, rest, _ := strings.Cut(line, " ")
	took, why, _ := strings.Cut(rest, " ")
	status, err := strconv.Atoi(code)
	seconds, err2 := strconv.ParseFloat(took, 64)
	switch {
	case err != nil || err2 != nil:
		return h.Failed(fmt.Sprintf("curl said %q", line), 0)
	case status == 0 || why != "":
		return h.Failed(why, seconds)
	}
	return h.Answered(status, seconds)
}
