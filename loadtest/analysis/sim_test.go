package analysis

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
)

// system is a simulated target: a first-come-first-served queue of known
// capacity, as a service behind an in-flight cap is.
type system struct {
	capacity float64 // requests per second of all servers
	servers  int
	fixed    bool    // fixed service times, else exponential
	noise    float64 // standard deviation of a slow (20 s) modulation of the capacity
	thrash   float64 // service grows by so much for each request in flight beyond 2 a server, to twice
	diesAt   float64 // seconds; 0: never
	limit    int     // in flight
	moves    mover   // nil: the capacity stays
}

// mover is what changes a system's capacity: it is told of every second of load
// at which rate, and gives the factor of the capacity from then on.
type mover func(second, offeredRPS float64) float64

// warmUp is slow for its first minute.
func warmUp(second, _ float64) float64 {
	if second < 60 {
		return 0.5
	}
	return 1
}

// cacheFills makes a system faster once its cache holds what is asked for.
func cacheFills(after, factor float64) mover {
	served := 0.0
	return func(_, offered float64) float64 {
		if served += offered; served >= after {
			return factor
		}
		return 1
	}
}

// burst gives more for a while, and less than at first once the load is eased.
func burst() mover {
	var last float64
	high, spent := false, false
	return func(second, offered float64) float64 {
		high = high || second >= 110
		spent = spent || high && offered < last
		last = offered
		switch {
		case spent:
			return 200.0 / 260
		case high:
			return 1.6
		}
		return 1
	}
}

// autoscaler adds a replica's share of the capacity whenever the load was above
// 80 % of it for a while, until there are most.
func autoscaler(capacity, delay float64, most int) mover {
	replicas, busy := 1, 0.0
	return func(_, offered float64) float64 {
		busy++
		if offered < 0.8*capacity*float64(replicas) {
			busy = 0
		}
		if busy >= delay && replicas < most {
			replicas, busy = replicas+1, 0
		}
		return float64(replicas)
	}
}

type times []float64

func (t times) Len() int           { return len(t) }
func (t times) Less(i, j int) bool { return t[i] < t[j] }
func (t times) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *times) Push(x any)        { *t = append(*t, x.(float64)) }
func (t *times) Pop() any {
	last := (*t)[len(*t)-1]
	*t = (*t)[:len(*t)-1]
	return last
}

// simulation is a system at work.
type simulation struct {
	system
	random    *rand.Rand
	now       float64 // when the next step begins
	modulated float64
	modAt     float64
	factor    float64 // of the capacity, by its mover
	movedAt   float64
}

func (s *simulation) service(at float64, inFlight int) float64 {
	mean := float64(s.servers) / s.capacity
	for ; s.modAt < at; s.modAt++ {
		keep := math.Exp(-1.0 / 20)
		s.modulated = keep*s.modulated + math.Sqrt(1-keep*keep)*s.noise*s.random.NormFloat64()
	}
	v := mean
	if !s.fixed {
		v = mean * s.random.ExpFloat64()
	}
	v *= max(0.1, 1+s.modulated) / s.factor
	return v * min(2, 1+s.thrash*max(0, float64(inFlight-2*s.servers)))
}

// step runs one probe on an idle system, as the engine does after its drain.
func (s *simulation) step(p Probe) Step {
	free, out := make(times, s.servers), times{}
	out2 := Step{Run: p.Run, Phase: p.Phase, OfferedRPS: p.OfferedRPS, Seconds: p.Seconds - p.DiscardSeconds}
	out2.BlockSeconds = 5
	out2.Blocks = make([]int64, int(out2.Seconds/out2.BlockSeconds))
	var latencies []float64
	var inFlight []float64
	nextSample := p.DiscardSeconds
	settle := func(until float64) {
		for len(out) > 0 && out[0] <= until {
			if end := heap.Pop(&out).(float64); end >= p.DiscardSeconds && end < p.Seconds {
				out2.Completed++
				if block := int((end - p.DiscardSeconds) / out2.BlockSeconds); block < len(out2.Blocks) {
					out2.Blocks[block]++
				}
			}
		}
	}
	for i := range int(p.OfferedRPS * p.Seconds) {
		t := float64(i) / p.OfferedRPS
		for ; nextSample <= t; nextSample += 0.25 {
			settle(nextSample)
			inFlight = append(inFlight, float64(len(out)))
		}
		settle(t)
		for s.factor = max(s.factor, 1e-9); s.moves != nil && s.movedAt <= s.now+t; s.movedAt++ {
			s.factor = s.moves(s.movedAt, p.OfferedRPS)
		}
		measured := t >= p.DiscardSeconds
		if measured {
			out2.Arrivals++
		}
		if s.diesAt > 0 && s.now+t >= s.diesAt {
			if measured {
				out2.Failed++
			}
			continue
		}
		if len(out) >= s.limit {
			if measured {
				out2.Dropped++
			}
			continue
		}
		end := max(t, free[0]) + s.service(s.now+t, len(out))
		free[0] = end
		out2.InFlightMax = max(out2.InFlightMax, float64(len(out)+1))
		heap.Fix(&free, 0)
		heap.Push(&out, end)
		if end < p.Seconds && end >= p.DiscardSeconds {
			latencies = append(latencies, end-t)
		}
	}
	settle(p.Seconds)
	if n := len(latencies); n > 0 && out2.Completed > 0 {
		slices.Sort(latencies)
		sum := 0.0
		for _, l := range latencies {
			sum += l
		}
		out2.P50Ms, out2.P95Ms, out2.P99Ms = 1000*latencies[n/2], 1000*latencies[n*95/100], 1000*latencies[n*99/100]
		out2.MeanMs = 1000 * sum / float64(n)
	}
	n := float64(len(inFlight))
	var xy, xx float64
	for _, v := range inFlight {
		out2.InFlightMean += v / n
	}
	for i, v := range inFlight {
		x := (float64(i) - (n-1)/2) * 0.25
		xy += x * (v - out2.InFlightMean)
		xx += x * x
	}
	if xx > 0 {
		out2.BacklogSlopeRPS = xy / xx
	}
	s.now += p.Seconds
	return out2
}

// search runs a whole search on a system.
func search(sys system, sc Scenario, seed uint64) Result {
	if sys.limit == 0 {
		sys.limit = sc.MaxInFlight
	}
	s := &simulation{system: sys, random: rand.New(rand.NewPCG(seed, 1)), factor: 1}
	r := Result{Version: 1, RunID: "sim", Scenario: sc}
	for {
		p, done := Next(sc, r.Steps)
		if done {
			return r
		}
		if len(r.Steps) > 500 {
			panic("the search does not end")
		}
		r.Steps = append(r.Steps, s.step(p))
		r.LoadSeconds += p.Seconds
	}
}
