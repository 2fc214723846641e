package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	requestTimeout = 15 * time.Second
	readyTimeout   = 5 * time.Second
)

// server serves the catalogue.
type server struct {
	config   config
	primary  *database
	reads    *database // the replica where there is one, else the primary
	redis    *redis.Client
	cache    cache
	throttle throttle
	metrics  *metrics
	unready  atomic.Bool   // turned off by hand
	working  chan struct{} // a slot for each /work that runs

	complaints throttle // of the log
}

// web serves until the context ends, then drains, and finishes the requests it has.
func web(ctx context.Context, c config) error {
	s, err := newServer(ctx, c)
	if err != nil {
		return err
	}
	defer s.close()
	listener, err := net.Listen("tcp", c.listen)
	if err != nil {
		return fmt.Errorf("listen for requests: %w", err)
	}
	return s.serve(ctx, listener)
}

func newServer(ctx context.Context, c config) (*server, error) {
	r, err := openRedis(c)
	if err != nil {
		return nil, err
	}
	primary, err := openDatabase(ctx, c.databaseURL, c)
	if err != nil {
		return nil, err
	}
	s := &server{config: c, primary: primary, reads: primary, redis: r, cache: cache{r, c.cacheTTL}, throttle: throttle{rateRPS: c.throttleRPS}, complaints: throttle{rateRPS: 1},
		working: make(chan struct{}, runtime.GOMAXPROCS(0))}
	databases := map[string]*database{"primary": primary}
	if c.replicaURL != "" {
		if s.reads, err = openDatabase(ctx, c.replicaURL, c); err != nil {
			primary.close()
			return nil, err
		}
		databases["replica"] = s.reads
	}
	s.metrics = newMetrics(databases, c.poolSize)
	return s, nil
}

func (s *server) close() {
	s.primary.close()
	if s.reads != s.primary {
		s.reads.close()
	}
	_ = s.redis.Close() // nothing is in flight any more
}

func (s *server) serve(ctx context.Context, listener net.Listener) error {
	d := newDraining()
	h := &http.Server{
		Handler:           d.handler(s.handler()),
		ConnState:         d.count,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       requestTimeout,
		WriteTimeout:      2 * requestTimeout,
		IdleTimeout:       2 * time.Minute, // above the edge's, which closes first
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(slog.Default().Handler(), slog.LevelInfo),
	}
	failed := make(chan error, 1)
	go func() { failed <- h.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	d.run(s.config.drain)
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	if err := h.Shutdown(stop); err != nil {
		return fmt.Errorf("finish the last requests: %w", err)
	}
	return nil
}

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /api/items", s.measured("items", readList[item](s, itemsSQL)))
	mux.Handle("GET /api/items/{id}", s.measured("item", s.item))
	mux.Handle("GET /api/item", s.measured("item", s.item)) // ?id=, for a scenario of fixed paths
	mux.Handle("GET /api/popular", s.measured("popular", readList[popularItem](s, popularSQL)))
	mux.Handle("GET /api/latest", s.measured("latest", readList[latestItem](s, latestSQL)))
	mux.Handle("GET /api/tags", s.measured("tags", readList[tag](s, tagsSQL)))
	mux.Handle("POST /api/items/{id}/interactions", s.measured("interact", s.interact))
	mux.Handle("GET /work", s.measured("work", s.work))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", s.ready)
	mux.HandleFunc("POST /readyz", s.setReady)
	mux.Handle("GET /metrics", s.metrics.handler())
	return mux
}

// answer is what an endpoint returns.
type answer struct {
	status int
	body   []byte // JSON
	cache  string // "hit", "miss", "bypass" or "error", where there is a cache
}

// measured wraps an endpoint with the throttle (before everything else, the cache
// too), a deadline and the metrics.
func (s *server) measured(name string, f func(*http.Request) answer) http.Handler {
	latency := s.metrics.latency.WithLabelValues(name)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		s.metrics.inFlight.Inc()
		defer s.metrics.inFlight.Dec()
		a := problem(http.StatusTooManyRequests, "too many requests")
		if s.throttle.allow(start) {
			ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
			defer cancel()
			r.Body = http.MaxBytesReader(w, r.Body, maxBodyBytes)
			a = f(r.WithContext(ctx))
		}
		if a.status == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "1")
		}
		if a.cache != "" {
			w.Header().Set("X-Cache", a.cache)
			s.metrics.cache.WithLabelValues(a.cache).Inc()
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
		w.WriteHeader(a.status)
		_, _ = w.Write(a.body) // the client is gone: nothing to tell it
		s.metrics.requests.WithLabelValues(name, strconv.Itoa(a.status)).Inc()
		latency.Observe(time.Since(start).Seconds())
	})
}

// ready says whether requests can be answered: the databases and Redis can be
// reached, and nobody turned it off.
func (s *server) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	var err error
	if s.unready.Load() {
		err = errors.New("turned off by hand")
	} else if err = s.primary.ping(ctx); err != nil {
		err = fmt.Errorf("the database: %w", err)
	} else if err = s.redis.Ping(ctx).Err(); err != nil {
		err = fmt.Errorf("redis: %w", err)
	} else if s.reads != s.primary {
		if err = s.reads.ping(ctx); err != nil {
			err = fmt.Errorf("the replica: %w", err)
		}
	}
	if err != nil {
		s.complain(ctx, slog.LevelWarn, "not ready", err) // not for the client: it holds host names
		http.Error(w, "not ready", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ready")
}

// complain logs what can happen in every request: at most one line a second.
func (s *server) complain(ctx context.Context, level slog.Level, message string, err error) {
	if s.complaints.allow(time.Now()) {
		slog.Log(ctx, level, message, "error", err)
	}
}

// setReady turns readiness off and on, for drills, from this machine only: not even
// through a proxy on it.
func (s *server) setReady(w http.ResponseWriter, r *http.Request) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	proxied := r.Header.Get("X-Forwarded-For") != "" || r.Header.Get("Forwarded") != "" || r.Header.Get("X-Real-IP") != ""
	if ip := net.ParseIP(host); err != nil || proxied || !ip.IsLoopback() {
		http.Error(w, "from the machine itself only", http.StatusForbidden)
		return
	}
	ready, err := strconv.ParseBool(r.URL.Query().Get("ready"))
	if err != nil {
		http.Error(w, "ready: want true or false", http.StatusBadRequest)
		return
	}
	s.unready.Store(!ready)
	fmt.Fprintf(w, "ready: %t\n", ready)
}
