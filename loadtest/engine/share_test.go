package engine

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lab/loadtest/analysis"
)

func randomWeights(r *rand.Rand) []int {
	weights := make([]int, 1+r.IntN(5))
	for i := range weights {
		weights[i] = 1 + r.IntN(4000)
	}
	return weights
}

// At every moment each generator has had its share of the arrivals so far, to
// within what rounding for so many generators takes.
func TestTurnsAreDealtByWeight(t *testing.T) {
	for seed := range uint64(300) {
		weights := randomWeights(rand.New(rand.NewPCG(seed, 1)))
		dealt, turns := make([]int, len(weights)), newTurns(weights)
		total := 0
		for _, w := range weights {
			total += w
		}
		for k := 1; k <= 2000; k++ {
			dealt[turns.next()]++
			for i, n := range dealt {
				want := float64(k) * float64(weights[i]) / float64(total)
				if off := float64(n) - want; off > float64(len(weights)) || off < -float64(len(weights)) {
					t.Fatalf("weights %v: after %d arrivals generator %d had %d, want about %.1f", weights, k, i, n, want)
				}
			}
		}
	}
}

func TestEqualGeneratorsTakeTurns(t *testing.T) {
	turns := newTurns([]int{500, 500, 500})
	for k := range 30 {
		if got := turns.next(); got != k%3 {
			t.Fatalf("arrival %d is generator %d's, want %d's", k, got, k%3)
		}
	}
}

// The in-flight caps of all shares are the scenario's, but for those that would
// have none.
func TestTheCapIsShared(t *testing.T) {
	for _, row := range []struct {
		name    string
		weights []int
		cap     int
		want    []int
	}{
		{"one generator", nil, 1000, []int{1000}},
		{"two alike", []int{500, 500}, 1001, []int{501, 500}},
		{"one of twice the CPU", []int{2000, 1000}, 300, []int{200, 100}},
		{"one too small for a place gets one", []int{64_000, 50}, 10, []int{10, 1}},
	} {
		var got []int
		for i := range row.want {
			got = append(got, Share{i, row.weights}.Of(row.cap))
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: %v, want %v", row.name, got, row.want)
		}
	}
}

func TestAShareThatIsNoneIsRefused(t *testing.T) {
	for _, s := range []Share{{Index: 1}, {2, []int{1, 1}}, {-1, []int{1}}, {0, []int{1, 0}}} {
		if _, err := NewShare("http://127.0.0.1:1", scenario("/"), s); err == nil {
			t.Errorf("%+v was taken", s)
		}
	}
}

// Several generators offer what one would have: as many arrivals, of the same
// endpoints.
func TestSeveralEnginesOfferTheScheduleOfOne(t *testing.T) {
	p := analysis.Probe{Phase: "ramp", OfferedRPS: 331, Seconds: 1, DiscardSeconds: 0.2}
	offered := func(weights []int) map[string]int {
		var mu sync.Mutex
		seen := map[string]int{}
		url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			seen[r.URL.Path]++
		})
		start, n := time.Now().Add(50*time.Millisecond), max(1, len(weights))
		tallies := make([]Tally, n)
		var all sync.WaitGroup
		for i := range n {
			e, err := NewShare(url, scenario("/a", "/b", "/c"), Share{i, weights})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(e.Close)
			all.Add(1)
			go func() { defer all.Done(); tallies[i] = e.Count(context.Background(), p, start) }()
		}
		all.Wait()
		for _, other := range tallies[1:] {
			if err := tallies[0].Add(other); err != nil {
				t.Fatal(err)
			}
		}
		if s := tallies[0].Step(p); s.Arrivals != 264 || s.Dropped != 0 { // 67 to 330
			t.Errorf("weights %v: %d arrivals in the window, want 264; %d dropped", weights, s.Arrivals, s.Dropped)
		}
		mu.Lock()
		defer mu.Unlock()
		return seen
	}
	one := offered(nil)
	for _, weights := range [][]int{{1, 1}, {600, 300, 100}} {
		if diff := cmp.Diff(one, offered(weights)); diff != "" {
			t.Errorf("weights %v: other requests than of one generator: %s", weights, diff)
		}
	}
}

// event is a request as a meter sees it.
type event struct {
	intended, sent, end float64 // seconds of the step
	kind                string
	dropped             bool
}

func randomEvents(r *rand.Rand, p analysis.Probe) []event {
	kinds := []string{"", "", "", "", "timeout", "status-503"}
	events := make([]event, 1+r.IntN(400))
	for i := range events {
		e := &events[i]
		e.intended = r.Float64() * p.Seconds
		e.sent = e.intended + r.ExpFloat64()*0.001
		e.end = e.sent + r.ExpFloat64()*0.3
		e.kind, e.dropped = kinds[r.IntN(len(kinds))], r.IntN(20) == 0
	}
	return events
}

// count is the tally of a generator that made these requests.
func count(p analysis.Probe, start time.Time, events []event) Tally {
	type moment struct {
		at float64
		do func(m *meter)
	}
	at := func(s float64) time.Time { return start.Add(seconds(s)) }
	var moments []moment
	for _, e := range events {
		moments = append(moments, moment{e.sent, func(m *meter) { m.arrive(at(e.intended), at(e.sent), e.dropped) }})
		if !e.dropped {
			moments = append(moments,
				moment{e.sent, func(m *meter) { m.begin(at(e.intended), at(e.sent)) }},
				moment{e.end, func(m *meter) { m.end(at(e.intended), at(e.sent), at(e.end), e.kind) }})
		}
	}
	slices.SortStableFunc(moments, func(a, b moment) int {
		switch {
		case a.at < b.at:
			return -1
		case a.at > b.at:
			return 1
		}
		return 0
	})
	m := newMeter(p, start)
	for _, mo := range moments {
		mo.do(m)
	}
	return m.close()
}

// However the requests of a step are dealt to generators, and after a way over the
// network, their tallies add up to that of one generator that made them all.
func TestTalliesAddUpToThatOfAllRequests(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		p := analysis.Probe{Phase: "ramp", OfferedRPS: 40, Seconds: 4 + 10*r.Float64(), DiscardSeconds: 3 * r.Float64()}
		events := randomEvents(r, p)
		parts := make([][]event, 1+r.IntN(4))
		for _, e := range events {
			i := r.IntN(len(parts))
			parts[i] = append(parts[i], e)
		}
		var sum Tally
		worst, most := 0.0, int64(0)
		for i, part := range parts {
			raw, err := json.Marshal(count(p, start, part))
			if err != nil {
				t.Fatal(err)
			}
			var sent Tally
			if err := json.Unmarshal(raw, &sent); err != nil {
				t.Fatal(err)
			}
			worst, most = max(worst, sent.LagP50Ms), most+sent.InFlightMax
			if i == 0 {
				sum = sent
			} else if err := sum.Add(sent); err != nil {
				t.Fatal(err)
			}
		}
		all := count(p, start, events)
		if !sum.Intended.Equals(all.Intended.Histogram) || !sum.Sent.Equals(all.Sent.Histogram) {
			t.Fatalf("seed %d: the added histograms are not that of all", seed)
		}
		got, want := sum.Step(p), all.Step(p)
		if got.InFlightMax < want.InFlightMax || got.InFlightMax != float64(most) || got.SchedLagP50Ms != worst {
			t.Fatalf("seed %d: in flight at most %g of %g, lag %g", seed, got.InFlightMax, want.InFlightMax, got.SchedLagP50Ms)
		}
		got.InFlightMax, got.SchedLagP50Ms = want.InFlightMax, want.SchedLagP50Ms
		within(t, "mean in flight", 1+got.InFlightMean, 1+want.InFlightMean, 1e-9)
		within(t, "backlog slope", 1000+got.BacklogSlopeRPS, 1000+want.BacklogSlopeRPS, 1e-9)
		got.InFlightMean, got.BacklogSlopeRPS = want.InFlightMean, want.BacklogSlopeRPS // but for the order of a sum
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("seed %d, %d generators: %s", seed, len(parts), diff)
		}
	}
}

func TestTalliesOfTwoStepsDoNotAddUp(t *testing.T) {
	short, long := newMeter(analysis.Probe{Seconds: 3}, time.Now()).close(), newMeter(analysis.Probe{Seconds: 4}, time.Now()).close()
	if err := short.Add(long); err == nil {
		t.Error("they were added")
	}
	if err := short.Add(Tally{Blocks: short.Blocks, Area: short.Area}); err == nil {
		t.Error("a tally without histograms was added")
	}
}
