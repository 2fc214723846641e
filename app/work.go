package main

import (
	"crypto/sha256"
	"fmt"
	"runtime"
	"syscall"
	"time"
)

// work hashes a block so many times, each hash over the one before: a fixed amount
// of CPU, unlike burning until a deadline, which does less when others have the CPU.
func work(iterations int64) [sha256.Size]byte {
	var block [sha256.Size]byte
	for range iterations {
		block = sha256.Sum256(block[:])
	}
	return block
}

// calibrate is the number of iterations that take a millisecond of this thread's
// CPU time (not of the clock's): of five runs the least disturbed.
func calibrate() (int64, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const iterations = 200_000
	var best time.Duration
	for range 5 {
		start, err := threadCPU()
		if err != nil {
			return 0, err
		}
		work(iterations)
		end, err := threadCPU()
		if err != nil {
			return 0, err
		}
		if took := end - start; best == 0 || took < best {
			best = took
		}
	}
	if best <= 0 {
		return 0, fmt.Errorf("measure the thread's CPU time: %v for %d iterations", best, iterations)
	}
	return int64(iterations * float64(time.Millisecond) / float64(best)), nil
}

// rusageThread is RUSAGE_THREAD of getrusage(2).
const rusageThread = 1

func threadCPU() (time.Duration, error) {
	var r syscall.Rusage
	if err := syscall.Getrusage(rusageThread, &r); err != nil {
		return 0, fmt.Errorf("measure the thread's CPU time: %w", err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano()), nil
}
