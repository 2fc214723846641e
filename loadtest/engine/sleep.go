package engine

import (
	"context"
	"syscall"
	"time"
)

// sleepSlice bounds how long the pacing thread does not look at its context.
const sleepSlice = 100 * time.Millisecond

// sleepUntil sleeps in the kernel until t: never shorter, also when a signal
// interrupts it. It says false when ctx ended.
func sleepUntil(ctx context.Context, t time.Time) bool {
	for {
		if ctx.Err() != nil {
			return false
		}
		wait := time.Until(t)
		if wait <= 0 {
			return true
		}
		ts := syscall.NsecToTimespec(int64(min(wait, sleepSlice)))
		_ = syscall.Nanosleep(&ts, nil) // EINTR: the loop sleeps the rest
	}
}
