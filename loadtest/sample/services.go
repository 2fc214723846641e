package sample

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"lab/loadtest/analysis"
	"lab/loadtest/plan"
)

const (
	serviceTimeout  = 900 * time.Millisecond // of the second between two readings
	statementsEvery = 5 * time.Second        // they are dear to read
	statementsKept  = 50                     // by time
)

// ServiceCounters is what a service says of itself: totals since it started, and
// what it has now. A service that did not answer in time has no counters.
type ServiceCounters struct {
	Kind         string             `json:"kind"`
	Full         bool               `json:"full,omitempty"` // it had no connection for the sampler: only connections, limit and refused are known
	Connections  float64            `json:"connections"`    // now
	Limit        float64            `json:"limit"`          // 0 when unknown
	Waiting      float64            `json:"waiting"`        // now
	Refused      int64              `json:"refused"`        // in all
	Hits         float64            `json:"hits,omitempty"` // in all
	Misses       float64            `json:"misses,omitempty"`
	Threads      map[string]float64 `json:"threads,omitempty"`
	Waits        map[string]float64 `json:"waits,omitempty"` // sessions now, by what they wait for
	Statements   []StatementCounter `json:"statements,omitempty"`
	StatementsMs float64            `json:"statementsMs,omitempty"` // of all statements, in all
	Cluster      *ClusterCounters   `json:"cluster,omitempty"`      // of kubernetes, and all that it has
}

// StatementCounter is a statement of pg_stat_statements, in all.
type StatementCounter struct {
	ID    string  `json:"id"`
	Calls int64   `json:"calls"`
	Ms    float64 `json:"ms"`
}

// asker asks one service.
type asker interface {
	ask(ctx context.Context) (ServiceCounters, error)
}

// Services are the services of a host. The zero value and nil have none.
type Services struct {
	all []plan.Service
	by  []asker
	mu  sync.Mutex // one reading at a time: the askers keep their connections
}

// ReadServices reads a list of services, JSON, from a file that only its owner may
// read: it can hold a password.
func ReadServices(path string) (*Services, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s can be read by others (mode %o): chmod 600 it", path, info.Mode().Perm())
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []plan.Service
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return NewServices(all)
}

// NewServices prepares to ask the services; it connects to none yet.
func NewServices(all []plan.Service) (*Services, error) {
	s := &Services{all: all}
	client := &http.Client{Timeout: serviceTimeout}
	for _, service := range all {
		switch service.Kind {
		case analysis.ServicePostgres:
			s.by = append(s.by, &postgres{service: service})
		case analysis.ServiceRedis:
			s.by = append(s.by, newRedis(service))
		case analysis.ServiceNginx:
			s.by = append(s.by, &nginx{service, client})
		case analysis.ServiceApp:
			s.by = append(s.by, &app{service, client})
		case analysis.ServiceKubernetes:
			if service.Namespace == "" {
				return nil, errors.New("service kubernetes: its namespace is empty: name the one of the workload")
			}
			s.by = append(s.by, &kubernetes{service: service})
		default:
			return nil, fmt.Errorf("service %q is not known", service.Kind)
		}
	}
	return s, nil
}

// Read asks all services at once, each for at most 900 ms. Those that did not
// answer are left out; the error says why.
func (s *Services) Read() ([]ServiceCounters, error) {
	if s == nil || len(s.by) == 0 {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), serviceTimeout)
	defer cancel()
	counters, errs := make([]ServiceCounters, len(s.by)), make([]error, len(s.by))
	var done sync.WaitGroup
	for i := range s.by {
		done.Go(func() {
			if counters[i], errs[i] = s.by[i].ask(ctx); errs[i] != nil {
				errs[i] = fmt.Errorf("%s: %w", s.all[i].Kind, errs[i])
			}
			counters[i].Kind = s.all[i].Kind
		})
	}
	done.Wait()
	var answered []ServiceCounters
	for i := range counters {
		if errs[i] == nil {
			answered = append(answered, counters[i])
		}
	}
	return answered, errors.Join(errs...)
}
