package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	beatEvery   = 30 * time.Second
	beatLockKey = "beat:lock"
)

// worker runs the queue's jobs, each at least once: a job stays in the
// processing list until it is done, and what a dead worker left there is queued
// again at the start.
func worker(ctx context.Context, c config) error {
	r, err := openRedis(c)
	if err != nil {
		return err
	}
	defer r.Close()
	for ctx.Err() == nil {
		if err := requeue(ctx, r); err == nil {
			break
		}
		pause(ctx, time.Second)
	}
	for ctx.Err() == nil {
		if err := runOne(ctx, r, 5*time.Second); err != nil && !errors.Is(err, redis.Nil) && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "worker:", err)
			pause(ctx, time.Second)
		}
	}
	return nil
}

func requeue(ctx context.Context, r *redis.Client) error {
	for {
		err := r.LMove(ctx, processingKey, queueKey, "RIGHT", "RIGHT").Err()
		if errors.Is(err, redis.Nil) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// runOne takes a job, counts it by its kind and takes it off the processing list.
func runOne(ctx context.Context, r *redis.Client, wait time.Duration) error {
	job, err := r.BLMove(ctx, queueKey, processingKey, "RIGHT", "LEFT", wait).Result()
	if err != nil {
		return err
	}
	if err := r.HIncrBy(ctx, "jobs:done", job, 1).Err(); err != nil {
		return err
	}
	return r.LRem(ctx, processingKey, 1, job).Err()
}

// beat queues the scheduled job; of several beats one holds the lock.
func beat(ctx context.Context, c config) error {
	r, err := openRedis(c)
	if err != nil {
		return err
	}
	defer r.Close()
	for ctx.Err() == nil {
		mine, err := r.SetNX(ctx, beatLockKey, "1", beatEvery-time.Second).Result()
		if err == nil && mine {
			err = r.LPush(ctx, queueKey, "tidy").Err()
		}
		if err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "beat:", err)
		}
		pause(ctx, beatEvery)
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
