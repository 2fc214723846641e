package orders

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"lab/loadtest/engine"
	"lab/loadtest/plan"
)

// Server is a generator that takes orders. It has one run at a time.
type Server struct {
	target string
	secret [sha256.Size]byte // its sum: the comparison tells no length either
	cpu    func() float64    // CPU seconds of this process

	mu     sync.Mutex
	run    string
	engine *engine.Engine // nil: no run
	busy   bool
	used   time.Time // when the last order ended
	over   chan struct{}
	ended  sync.Once
}

// NewServer is a generator that loads target, and nothing else, for who has the
// secret. cpu tells the CPU seconds of the process.
func NewServer(target, secret string, cpu func() float64) *Server {
	return &Server{target: target, secret: sha256.Sum256([]byte("Bearer " + secret)), cpu: cpu, used: time.Now(), over: make(chan struct{})}
}

// Handler takes the orders.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ready", s.allowed(func(http.ResponseWriter, *http.Request) {}))
	mux.HandleFunc("POST /begin", s.allowed(s.begin))
	mux.HandleFunc("POST /step", s.allowed(s.step))
	mux.HandleFunc("POST /end", s.allowed(s.end))
	return mux
}

func (s *Server) allowed(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		got := sha256.Sum256([]byte(r.Header.Get("Authorization")))
		if subtle.ConstantTimeCompare(got[:], s.secret[:]) != 1 {
			http.Error(w, "wrong secret", http.StatusUnauthorized)
			return
		}
		next(w, r)
	}
}

// Wait returns when the run was ended, when no order came for idle, or when ctx
// ends.
func (s *Server) Wait(ctx context.Context, idle time.Duration) {
	tick := time.NewTicker(idleCheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.over:
			return
		case <-tick.C:
		}
		s.mu.Lock()
		unused := !s.busy && time.Since(s.used) > idle
		s.mu.Unlock()
		if unused {
			return
		}
	}
}

// take marks the generator as busy, for the run when one is given.
func (s *Server) take(run string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.busy:
		return fmt.Errorf("busy with run %s", s.run)
	case run != "" && (s.engine == nil || s.run != run):
		return fmt.Errorf("run %s was not begun here, or this generator was started again since", run)
	}
	s.busy = true
	return nil
}

func (s *Server) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy, s.used = false, time.Now()
}

// begin prepares an engine, and asks the target for each endpoint once: that this
// host reaches it is known before any load.
func (s *Server) begin(w http.ResponseWriter, r *http.Request) {
	var order begin
	if !read(w, r, &order) {
		return
	}
	if err := s.take(""); err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	defer s.release()
	if err := (plan.Plan{RunID: order.RunID, Target: s.target, Scenario: order.Scenario}).Validate(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	e, err := engine.NewShare(s.target, order.Scenario, order.Share)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if _, err := e.Check(); err != nil {
		e.Close()
		http.Error(w, fmt.Sprintf("%s does not answer: %v", s.target, err), http.StatusBadGateway)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.engine != nil {
		s.engine.Close()
	}
	s.engine, s.run = e, order.RunID
}

// step offers a share of a step. The answer begins at once and gives a sign of
// life every second: a newline, which JSON allows before its text. When who
// ordered it is gone, the load ends.
func (s *Server) step(w http.ResponseWriter, r *http.Request) {
	var order step
	if !read(w, r, &order) {
		return
	}
	if err := order.validate(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err := s.take(order.RunID); err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	defer s.release()
	start, err := order.startOn(time.Now())
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	counted := make(chan report, 1)
	go func() {
		began, before := time.Now(), s.cpu()
		tally := s.engine.Count(r.Context(), order.Probe, start)
		counted <- report{Tally: tally, CPUs: (s.cpu() - before) / max(time.Since(began).Seconds(), 1e-3)}
	}()
	tick := time.NewTicker(beat)
	defer tick.Stop()
	live := http.NewResponseController(w)
	for {
		select {
		case done := <-counted:
			if r.Context().Err() != nil {
				return
			}
			_ = json.NewEncoder(w).Encode(done) // who ordered it sees a cut answer
			return
		case <-tick.C:
			_, _ = io.WriteString(w, "\n")
			_ = live.Flush() // of a connection that is gone the context tells
		}
	}
}

// end closes the run: its process has nothing to do any more.
func (s *Server) end(w http.ResponseWriter, r *http.Request) {
	var order struct {
		RunID string `json:"runId"`
	}
	if !read(w, r, &order) {
		return
	}
	if err := s.take(order.RunID); err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	defer s.release()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.engine.Close()
	s.engine, s.run = nil, ""
	s.ended.Do(func() { close(s.over) })
}

// read decodes an order or answers that it is none.
func read(w http.ResponseWriter, r *http.Request, into any) bool {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		http.Error(w, errors.Join(errors.New("no order"), err).Error(), http.StatusBadRequest)
		return false
	}
	return true
}
