package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

const (
	jobTimeout = 10 * time.Second
	takeWait   = 2 * time.Second // bounds how long an idle worker takes to stop
	retryAfter = time.Second
)

// worker runs the queue's jobs until the context ends.
func worker(ctx context.Context, c config) error {
	d, err := openDatabase(ctx, c.databaseURL, c)
	if err != nil {
		return err
	}
	defer d.close()
	r, err := openRedis(c)
	if err != nil {
		return err
	}
	defer r.Close()
	w := newConsumer(r, func(ctx context.Context, j job) error { return perform(ctx, d, j) })
	var looked time.Time
	for ctx.Err() == nil {
		// Before each job: a job takes jobTimeout at most, well within aliveFor.
		err := w.signOfLife(ctx)
		if err == nil && time.Since(looked) >= aliveFor {
			if err = w.recoverDead(ctx); err == nil {
				looked = time.Now()
			}
		}
		if err == nil {
			_, err = w.next(ctx, takeWait)
		}
		if err != nil && ctx.Err() == nil {
			slog.ErrorContext(ctx, "worker", "error", err)
			pause(ctx, retryAfter)
		}
	}
	return nil
}

func perform(ctx context.Context, d *database, j job) error {
	if j.Kind != "recount" {
		return fmt.Errorf("no job of the kind %q", j.Kind)
	}
	return recount(ctx, d, j.Item)
}

// beat queues the scheduled job at the start of each period.
func beat(ctx context.Context, c config) error {
	r, err := openRedis(c)
	if err != nil {
		return err
	}
	defer r.Close()
	for ctx.Err() == nil {
		now := time.Now()
		wait := c.beatEvery - time.Duration(now.UnixNano()%int64(c.beatEvery))
		if _, err := schedule(ctx, r, now, c.beatEvery); err != nil && ctx.Err() == nil {
			slog.ErrorContext(ctx, "beat", "error", err)
			wait = min(wait, retryAfter)
		}
		pause(ctx, wait)
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
