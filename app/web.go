package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"
)

const (
	requestTimeout = 15 * time.Second
	maxWorkMs      = 10_000
)

// server serves the catalogue.
type server struct {
	config   config
	database *database
	redis    *redis.Client
	cache    cache
	throttle throttle
	unready  atomic.Bool

	requests *prometheus.CounterVec
	latency  *prometheus.HistogramVec
	inFlight prometheus.Gauge
	hits     *prometheus.CounterVec
}

func web(ctx context.Context, c config) error {
	d, err := openDatabase(ctx, c)
	if err != nil {
		return err
	}
	defer d.close()
	r, err := openRedis(c)
	if err != nil {
		return err
	}
	defer r.Close()
	s := &http.Server{
		Addr: c.listen, Handler: newServer(c, d, r).handler(),
		ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 2 * requestTimeout, IdleTimeout: 2 * time.Minute,
	}
	failed := make(chan error, 1)
	go func() { failed <- s.ListenAndServe() }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
		defer cancel()
		return s.Shutdown(stop)
	}
}

func newServer(c config, d *database, r *redis.Client) *server {
	return &server{
		config: c, database: d, redis: r, cache: cache{r, c.cacheTTL}, throttle: throttle{rate: c.throttleRPS},
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "app_requests_total", Help: "Requests by endpoint and status."}, []string{"endpoint", "status"}),
		latency:  prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "app_request_seconds", Help: "Time in the handler.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 14)}, []string{"endpoint"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{Name: "app_in_flight", Help: "Requests in the handlers."}),
		hits:     prometheus.NewCounterVec(prometheus.CounterOpts{Name: "app_cache_total", Help: "Cache look-ups by outcome."}, []string{"outcome"}),
	}
}

func (s *server) handler() http.Handler {
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(s.requests, s.latency, s.inFlight, s.hits)
	mux := http.NewServeMux()
	for path, name := range map[string]string{
		"/api/items": "items", "/api/latest": "latest", "/api/popular": "popular", "/api/tags": "tags", "/api/item": "item",
	} {
		mux.Handle("GET "+path, s.measured(name, s.read(name)))
	}
	mux.Handle("POST /api/items/{id}/interactions", s.measured("interact", s.interact))
	mux.Handle("GET /work", s.measured("work", s.work))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", s.ready)
	mux.HandleFunc("POST /readyz", s.setReady)
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	return mux
}

// answer is what a handler returns: a status and a JSON body.
type answer func(r *http.Request) (status int, body []byte)

// measured wraps a handler with the throttle, a deadline and the metrics.
func (s *server) measured(name string, f answer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		s.inFlight.Inc()
		defer s.inFlight.Dec()
		status, body := http.StatusTooManyRequests, []byte(`{"error":"too many requests"}`)
		if s.throttle.allow(start) {
			ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
			defer cancel()
			status, body = f(r.WithContext(ctx))
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.WriteHeader(status)
		_, _ = w.Write(body) // the client is gone: nothing to tell it
		s.requests.WithLabelValues(name, strconv.Itoa(status)).Inc()
		s.latency.WithLabelValues(name).Observe(time.Since(start).Seconds())
	})
}

// read answers one of the read endpoints, from the cache for who is anonymous.
func (s *server) read(name string) answer {
	return func(r *http.Request) (int, []byte) {
		shared := s.config.cacheTTL > 0 && anonymous(r)
		var key string
		if shared {
			body, k := s.cache.get(r.Context(), name)
			if body != nil {
				s.hits.WithLabelValues("hit").Inc()
				return http.StatusOK, body
			}
			s.hits.WithLabelValues("miss").Inc()
			key = k
		}
		rows, err := read(r.Context(), s.database, name, s.config.correlated)
		if err != nil {
			return failure(err)
		}
		body, err := json.Marshal(rows)
		if err != nil {
			return failure(err)
		}
		if shared {
			s.cache.put(r.Context(), key, body)
		}
		return http.StatusOK, body
	}
}

// interact records a like: the cache's generation moves after the commit, and a
// job is queued.
func (s *server) interact(r *http.Request) (int, []byte) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil || id < 1 || id > items {
		return http.StatusNotFound, []byte(`{"error":"no such item"}`)
	}
	ctx := r.Context()
	err = s.database.with(ctx, func(q querier) error {
		return pgx.BeginFunc(ctx, q, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO interaction (item_id, kind, at) VALUES ($1, 'like', now())", id)
			return err
		})
	})
	if err == nil {
		err = s.cache.invalidate(ctx)
	}
	if err == nil {
		err = s.redis.LPush(ctx, queueKey, fmt.Sprintf("interaction:%d", id)).Err()
	}
	if err != nil {
		return failure(err)
	}
	return http.StatusCreated, []byte(`{"ok":true}`)
}

// work does a fixed amount of CPU work.
func (s *server) work(r *http.Request) (int, []byte) {
	ms, err := strconv.ParseInt(r.URL.Query().Get("ms"), 10, 64)
	if err != nil || ms < 1 || ms > maxWorkMs {
		return http.StatusBadRequest, []byte(`{"error":"ms: want 1 to 10000"}`)
	}
	sum := work(ms * s.config.iterationsAtMs)
	return http.StatusOK, fmt.Appendf(nil, `{"ms":%d,"sum":"%x"}`, ms, sum[:4])
}

func failure(err error) (int, []byte) {
	if errors.Is(err, context.DeadlineExceeded) {
		return http.StatusGatewayTimeout, []byte(`{"error":"timeout"}`)
	}
	return http.StatusServiceUnavailable, []byte(`{"error":"unavailable"}`)
}

func (s *server) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	defer cancel()
	_, err := read(ctx, s.database, "tags", false)
	if err == nil {
		err = s.redis.Ping(ctx).Err()
	}
	if err != nil || s.unready.Load() {
		http.Error(w, "not ready", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ready")
}

// setReady turns readiness on or off, for drills, from this machine only.
func (s *server) setReady(w http.ResponseWriter, r *http.Request) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil || !net.ParseIP(host).IsLoopback() {
		http.Error(w, "from the machine itself only", http.StatusForbidden)
		return
	}
	ready, err := strconv.ParseBool(r.URL.Query().Get("ready"))
	if err != nil {
		http.Error(w, "ready: want true or false", http.StatusBadRequest)
		return
	}
	s.unready.Store(!ready)
}

// throttle is a token bucket of one second's burst; rate 0 lets all through.
type throttle struct {
	rate   float64
	mu     sync.Mutex
	tokens float64
	last   time.Time
}

func (t *throttle) allow(now time.Time) bool {
	if t.rate == 0 {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last.IsZero() {
		t.tokens = t.rate
	} else {
		t.tokens = min(t.rate, t.tokens+now.Sub(t.last).Seconds()*t.rate)
	}
	t.last = now
	if t.tokens < 1 {
		return false
	}
	t.tokens--
	return true
}
