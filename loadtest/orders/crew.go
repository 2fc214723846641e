package orders

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"lab/loadtest/analysis"
	"lab/loadtest/engine"
)

// Member is a generator that takes orders.
type Member struct {
	Host    string
	Address string // HOST:PORT of its orders
	Share   engine.Share
	// Clock is how far the host's wall clock is ahead of this one's; nil: not at all.
	Clock func() time.Duration
}

// Crew is all generators of a run, seen from the one that leads: its own engine,
// and the members.
type Crew struct {
	own     *engine.Engine
	members []Member
	secret  string
	run     string
	client  *http.Client
	silence time.Duration // of a member within a step: then it is gone

	mu   sync.Mutex
	cpus map[string]float64 // that each member's process used in the last step
}

// NewCrew is a crew that has reached nobody yet.
func NewCrew(own *engine.Engine, members []Member, secret, run string) *Crew {
	return &Crew{
		own: own, members: members, secret: secret, run: run, cpus: map[string]float64{}, silence: silence,
		client: &http.Client{Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			MaxIdleConnsPerHost: 1,
		}},
	}
}

// Begin prepares every member for the scenario, all at once. Its error names each
// that is not ready: no load was sent.
func (c *Crew) Begin(ctx context.Context, sc analysis.Scenario) error {
	errs := make([]error, len(c.members))
	c.each(func(i int, m Member) {
		errs[i] = c.beginOne(ctx, m, begin{RunID: c.run, Scenario: sc, Share: m.Share})
	})
	return errors.Join(errs...)
}

// beginOne waits for a member that is still ending what an earlier run, which was
// cut, had ordered.
func (c *Crew) beginOne(ctx context.Context, m Member, order begin) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	for {
		err := c.call(ctx, m, "/begin", order, nil)
		if !busy(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(beat):
		}
	}
}

// Count has all generators offer their shares of a step and adds up what they
// counted. When one of them fails, all stop, and there is no tally: a part of the
// rate is no measurement of it.
func (c *Crew) Count(ctx context.Context, p analysis.Probe) (engine.Tally, time.Time, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	start := time.Now().Add(StartLead)
	reports, errs := make([]report, len(c.members)), make([]error, len(c.members))
	var first sync.Once
	var failed error
	var own sync.WaitGroup
	var tally engine.Tally
	own.Add(1)
	go func() { defer own.Done(); tally = c.own.Count(ctx, p, start) }()
	c.each(func(i int, m Member) {
		at := start
		if m.Clock != nil {
			at = at.Add(m.Clock())
		}
		if errs[i] = c.call(ctx, m, "/step", step{RunID: c.run, Probe: p, StartUnixNano: at.UnixNano()}, &reports[i]); errs[i] != nil {
			first.Do(func() { failed = errs[i] }) // the others fail because they are stopped
			stop()
		}
	})
	own.Wait()
	if failed != nil {
		return engine.Tally{}, start, failed
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, m := range c.members {
		if err := tally.Add(reports[i].Tally); err != nil {
			return engine.Tally{}, start, fmt.Errorf("%s: %w", m, err)
		}
		c.cpus[m.Host] = reports[i].CPUs
	}
	return tally, start, nil
}

// CPUs is what each member's process used in the last step, by host, in CPUs.
func (c *Crew) CPUs() map[string]float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]float64{}
	for host, cpus := range c.cpus {
		all[host] = cpus
	}
	return all
}

// End lets the members go, so that nothing runs on after the load test. One that
// does not hear it ends by itself.
func (c *Crew) End() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c.each(func(_ int, m Member) {
		_ = c.call(ctx, m, "/end", map[string]string{"runId": c.run}, nil)
	})
	c.client.CloseIdleConnections()
}

func (c *Crew) each(do func(i int, m Member)) {
	var all sync.WaitGroup
	for i, m := range c.members {
		all.Add(1)
		go func() { defer all.Done(); do(i, m) }()
	}
	all.Wait()
}

// String names a member in errors.
func (m Member) String() string { return fmt.Sprintf("load generator %s at %s", m.Host, m.Address) }

// refusal is an order that was heard and not followed.
type refusal struct {
	member Member
	status int
	text   string
}

func (r refusal) Error() string {
	if r.status == http.StatusUnauthorized {
		return fmt.Sprintf("%s refuses the secret: another lab has set that host up since; give each lab load generators of its own", r.member)
	}
	return fmt.Sprintf("%s: %s", r.member, r.text)
}

func busy(err error) bool {
	var r refusal
	return errors.As(err, &r) && r.status == http.StatusConflict
}

// call gives one order and decodes the answer. A member that gives no sign of
// life is gone.
func (c *Crew) call(ctx context.Context, m Member, path string, order, answer any) error {
	raw, err := json.Marshal(order)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+m.Address+path, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+c.secret)
	limit := c.silence
	if answer == nil {
		limit = callLimit
	}
	watch := time.AfterFunc(limit, func() { cancel(errSilent) })
	defer watch.Stop()
	resp, err := c.client.Do(req)
	if err != nil {
		return c.lost(ctx, m, answer, err)
	}
	defer resp.Body.Close()
	body := &living{resp.Body, watch, limit}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(body, 4096)) // a cut reason is better than none
		return refusal{m, resp.StatusCode, strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "; ")}
	}
	if answer == nil {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(body, maxBody)).Decode(answer); err != nil {
		return c.lost(ctx, m, answer, err)
	}
	_, _ = io.Copy(io.Discard, body) // so that the connection is kept
	return nil
}

// lost says of a member that could not be reached, or that is gone, what to look at.
func (c *Crew) lost(ctx context.Context, m Member, answer any, err error) error {
	var within *url.Error
	if errors.As(err, &within) {
		err = within.Err // the member is named already, and a quoted address ends what load.sh shows
	}
	if errors.Is(context.Cause(ctx), errSilent) {
		err = errSilent
	}
	if answer == nil {
		return fmt.Errorf("%s can't be reached: %w; look at `systemctl status lab-generator.socket` on %s, and whether a firewall is between the generators", m, err, m.Host)
	}
	return fmt.Errorf("%s ended within a step, which does not count: %w; look at `journalctl -u lab-generator` on %s", m, err, m.Host)
}

// living puts the watch off with every byte that comes.
type living struct {
	io.Reader
	watch *time.Timer
	limit time.Duration
}

func (l *living) Read(p []byte) (int, error) {
	n, err := l.Reader.Read(p)
	if n > 0 {
		l.watch.Reset(l.limit)
	}
	return n, err
}
