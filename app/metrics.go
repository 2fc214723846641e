package main

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics of the web part. Each server has a registry of its own.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	latency  *prometheus.HistogramVec
	inFlight prometheus.Gauge
	cache    *prometheus.CounterVec
	lost     *prometheus.CounterVec
}

func newMetrics(databases map[string]*database, poolSize int) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "app_requests_total", Help: "Requests by endpoint and status."}, []string{"endpoint", "status"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "app_request_seconds", Help: "Time in the handler.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 14)}, []string{"endpoint"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "app_in_flight", Help: "Requests in the handlers."}),
		cache: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "app_cache_total", Help: "Reads by what the cache did: hit, miss, bypass (not an anonymous reader) or error."}, []string{"outcome"}),
		lost: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "app_after_commit_failures_total", Help: "What could not be done after a committed write: invalidate or enqueue."}, []string{"what"}),
	}
	m.registry.MustRegister(m.requests, m.latency, m.inFlight, m.cache, m.lost, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "app_database_connections_limit", Help: "POOL_SIZE."}, func() float64 { return float64(poolSize) }))
	for name, d := range databases {
		labels := prometheus.Labels{"database": name}
		m.registry.MustRegister(
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "app_database_connections_in_use", Help: "Connections that requests hold.", ConstLabels: labels},
				func() float64 { return float64(d.inUse()) }),
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "app_database_connections_waiting", Help: "Requests that wait for a connection.", ConstLabels: labels},
				func() float64 { return float64(d.waiting.Load()) }),
			prometheus.NewCounterFunc(prometheus.CounterOpts{
				Name: "app_database_connections_opened_total", Help: "Connections made.", ConstLabels: labels},
				func() float64 { return float64(d.opened.Load()) }),
			prometheus.NewCounterFunc(prometheus.CounterOpts{
				Name: "app_database_connections_refused_total", Help: "Connections that the database had no place for.", ConstLabels: labels},
				func() float64 { return float64(d.refused.Load()) }))
	}
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}
