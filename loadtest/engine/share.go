package engine

import "fmt"

// Share is the part of a step's common schedule that one of several generators
// offers. Every generator walks the same schedule and leaves out what is another's:
// together they offer each arrival once, at the time at which one generator would
// have, and of the endpoint that it would have chosen. The zero value is all of it.
type Share struct {
	Index   int   `json:"index"`   // of this generator
	Weights []int `json:"weights"` // of all, above 0; integers, so that every machine reckons alike
}

// Validate says what is wrong with a share.
func (s Share) Validate() error {
	if len(s.Weights) == 0 && s.Index == 0 {
		return nil
	}
	if s.Index < 0 || s.Index >= len(s.Weights) {
		return fmt.Errorf("share %d of %d generators", s.Index, len(s.Weights))
	}
	for i, w := range s.Weights {
		if w <= 0 {
			return fmt.Errorf("share: the weight of generator %d is %d, want above 0", i, w)
		}
	}
	return nil
}

// Of is how many of n things are this generator's: at least one, since a
// generator with room for nothing would drop all that it is given.
func (s Share) Of(n int) int {
	if len(s.Weights) == 0 {
		return n
	}
	mine, turns := 0, newTurns(s.Weights)
	for range n {
		if turns.next() == s.Index {
			mine++
		}
	}
	return max(1, mine)
}

// turns deals arrivals to generators, each as often as its weight says and as
// evenly spread as can be: smooth weighted round robin, k mod n for equal weights.
type turns struct {
	weights, credit []int
	total           int
}

func newTurns(weights []int) *turns {
	t := &turns{weights: weights, credit: make([]int, len(weights))}
	for _, w := range weights {
		t.total += w
	}
	return t
}

// next is the generator of the next arrival; 0 when there is but one.
func (t *turns) next() int {
	first := 0
	for i, w := range t.weights {
		t.credit[i] += w
		if t.credit[i] > t.credit[first] {
			first = i
		}
	}
	if len(t.credit) > 0 {
		t.credit[first] -= t.total
	}
	return first
}
