package main

import (
	"crypto/sha256"
	"runtime"
	"syscall"
	"time"
)

// work hashes a block so many times: a fixed amount of CPU, unlike burning until
// a deadline, which does less work when others have the CPU.
func work(iterations int64) [sha256.Size]byte {
	var block [sha256.Size]byte
	for range iterations {
		block = sha256.Sum256(block[:])
	}
	return block
}

// calibrate is the number of iterations that take a millisecond of this thread's
// CPU time (not of the clock's): the best of five, the least disturbed one.
func calibrate() int64 {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const iterations = 200_000
	best := time.Duration(1<<63 - 1)
	for range 5 {
		start := threadCPU()
		work(iterations)
		best = min(best, threadCPU()-start)
	}
	return int64(iterations * float64(time.Millisecond) / float64(max(best, 1)))
}

// rusageThread is RUSAGE_THREAD of getrusage(2).
const rusageThread = 1

func threadCPU() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(rusageThread, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
