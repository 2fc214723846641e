package main

import (
	"sync"
	"time"
)

// throttle is a token bucket for the whole process. It holds one second's tokens,
// but one at least, so that a rate below 1 lets requests through at all.
type throttle struct {
	rateRPS float64 // 0 lets all through

	mu     sync.Mutex
	tokens float64
	last   time.Time
}

// allow takes a token if there is one at that time.
func (t *throttle) allow(now time.Time) bool {
	if t.rateRPS == 0 {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	size := max(t.rateRPS, 1)
	if t.last.IsZero() {
		t.tokens, t.last = size, now
	}
	if elapsed := now.Sub(t.last); elapsed > 0 { // callers may come out of order
		t.tokens, t.last = min(size, t.tokens+elapsed.Seconds()*t.rateRPS), now
	}
	if t.tokens < 1 {
		return false
	}
	t.tokens--
	return true
}
