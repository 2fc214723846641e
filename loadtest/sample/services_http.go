package sample

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	dto "github.com/prometheus/client_model/go"

	"lab/loadtest/plan"
)

// maxPage is the most of an answer that is read.
const maxPage = 4 << 20

func get(ctx context.Context, client *http.Client, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxPage))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, resp.Status)
	}
	return string(raw), err
}

// nginx asks stub_status, and /proc for what its workers use.
type nginx struct {
	service plan.Service
	client  *http.Client
}

func (n *nginx) ask(ctx context.Context) (ServiceCounters, error) {
	text, err := get(ctx, n.client, n.service.Address)
	if err != nil {
		return ServiceCounters{}, err
	}
	c, err := parseStubStatus(text)
	c.Limit = n.service.Limit
	c.Threads = workers("/proc")
	return c, err
}

// parseStubStatus reads the four lines of stub_status. A connection that was
// accepted and not handled was refused for want of a free one.
func parseStubStatus(text string) (ServiceCounters, error) {
	var c ServiceCounters
	var active, accepts, handled, requests, reading, writing, waiting int64
	_, err := fmt.Sscanf(text, "Active connections: %d\nserver accepts handled requests\n %d %d %d\nReading: %d Writing: %d Waiting: %d",
		&active, &accepts, &handled, &requests, &reading, &writing, &waiting)
	if err != nil {
		return c, fmt.Errorf("stub_status: %w in %q", err, text)
	}
	c.Connections, c.Refused = float64(max(0, active-1)), accepts-handled // but for the one that asks
	return c, nil
}

// workers are the CPU seconds of every worker process, by its id.
func workers(proc string) map[string]float64 {
	all := map[string]float64{}
	found, _ := filepath.Glob(filepath.Join(proc, "[0-9]*", "comm")) // a pattern without a fault
	for _, comm := range found {
		dir := filepath.Dir(comm)
		if name, _ := os.ReadFile(comm); strings.TrimSpace(string(name)) != "nginx" {
			continue
		}
		if line, _ := os.ReadFile(filepath.Join(dir, "cmdline")); !strings.HasPrefix(string(line), "nginx: worker") {
			continue
		}
		if seconds, ok := processSeconds(filepath.Join(dir, "stat")); ok {
			all[filepath.Base(dir)] = seconds
		}
	}
	return all
}

// processSeconds reads utime and stime of /proc/PID/stat (proc(5)): the 14th and
// 15th field, counted behind the name, which may hold anything.
func processSeconds(stat string) (float64, bool) {
	raw, err := os.ReadFile(stat)
	if err != nil {
		return 0, false // it has ended
	}
	_, rest, _ := strings.Cut(string(raw[strings.LastIndexByte(string(raw), ')')+1:]), " ")
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0, false
	}
	user, errUser := strconv.ParseFloat(f[11], 64)
	system, errSystem := strconv.ParseFloat(f[12], 64)
	return (user + system) / userHZ, errUser == nil && errSystem == nil
}

// app asks the workload's /metrics for its pool of database connections, and how
// many the database turned away: Postgres itself counts no session that it refused.
type app struct {
	service plan.Service
	client  *http.Client
}

func (a *app) ask(ctx context.Context) (ServiceCounters, error) {
	text, err := get(ctx, a.client, a.service.Address)
	if err != nil {
		return ServiceCounters{}, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		return ServiceCounters{}, fmt.Errorf("%s: %w", a.service.Address, err)
	}
	return ServiceCounters{
		Connections: gauges(families["app_database_connections_in_use"]),
		Limit:       gauges(families["app_database_connections_limit"]),
		Waiting:     gauges(families["app_database_connections_waiting"]),
		Refused:     int64(counters(families["app_database_connections_refused_total"])),
	}, nil
}

// gauges is the sum of a family's gauges; 0 when there is none.
func gauges(family *dto.MetricFamily) float64 {
	sum := 0.0
	for _, m := range family.GetMetric() {
		sum += m.GetGauge().GetValue()
	}
	return sum
}

// counters is the sum of a family's counters; 0 when there is none.
func counters(family *dto.MetricFamily) float64 {
	sum := 0.0
	for _, m := range family.GetMetric() {
		sum += m.GetCounter().GetValue()
	}
	return sum
}
