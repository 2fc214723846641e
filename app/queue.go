package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	queueKey   = "jobs"         // list: new jobs enter left, workers take from the right
	deadKey    = "jobs:dead"    // list: the latest jobs that were given up
	workersKey = "jobs:workers" // set: workers that may hold jobs

	maxAttempts = 5
	keptDead    = 1000
	aliveFor    = 30 * time.Second // without a sign of life a worker is dead
)

// job is one entry of the queue. Its ID makes every entry different.
type job struct {
	ID      string `json:"id"`
	Kind    string `json:"kind"`           // "recount"
	Item    int64  `json:"item,omitempty"` // 0: all items
	Attempt int    `json:"attempt"`        // from 1
}

func newJob(kind string, item int64) job {
	return job{ID: rand.Text(), Kind: kind, Item: item, Attempt: 1}
}

func (j job) encode() string {
	raw, err := json.Marshal(j)
	if err != nil { // strings and numbers always encode
		panic(err)
	}
	return string(raw)
}

func enqueue(ctx context.Context, r *redis.Client, j job) error {
	if err := r.LPush(ctx, queueKey, j.encode()).Err(); err != nil {
		return fmt.Errorf("queue a %s job: %w", j.Kind, err)
	}
	return nil
}

// enqueueOnce pushes a job unless a beat did in that period, in one step: no period
// is marked without its job.
var enqueueOnce = redis.NewScript(`
if redis.call('SET', KEYS[1], '1', 'NX', 'EX', ARGV[2]) then
	redis.call('LPUSH', KEYS[2], ARGV[1])
	return 1
end
return 0`)

// schedule queues a job once in each period of the clock, however many beats try.
func schedule(ctx context.Context, r *redis.Client, now time.Time, every time.Duration) (queued bool, err error) {
	j := newJob("recount", 0)
	lock := "beat:" + j.Kind + ":" + strconv.FormatInt(now.UnixNano()/int64(every), 10)
	n, err := enqueueOnce.Run(ctx, r, []string{lock, queueKey}, j.encode(), int(2*every/time.Second)).Int()
	if err != nil {
		return false, fmt.Errorf("schedule a %s job: %w", j.Kind, err)
	}
	return n == 1, nil
}

// consumer takes jobs, each at least once: a job is in the consumer's own list from
// the moment it leaves the queue until it is done, and what a dead consumer's list
// holds goes back to the queue.
type consumer struct {
	redis *redis.Client
	name  string
	do    func(context.Context, job) error

	// unsure is set when an answer of Redis was lost: a job may be in the list that
	// this consumer does not know of.
	unsure bool
}

func newConsumer(r *redis.Client, do func(context.Context, job) error) *consumer {
	return &consumer{redis: r, name: rand.Text(), do: do}
}

func processingKey(worker string) string { return "jobs:processing:" + worker }
func aliveKey(worker string) string      { return "jobs:alive:" + worker }

// signOfLife says that this consumer lives. The first comes before the first job.
func (c *consumer) signOfLife(ctx context.Context) error {
	_, err := c.redis.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, aliveKey(c.name), "1", aliveFor)
		p.SAdd(ctx, workersKey, c.name)
		return nil
	})
	if err != nil {
		return fmt.Errorf("say that the worker lives: %w", err)
	}
	return nil
}

// recoverDead puts back the jobs of consumers that no longer live.
func (c *consumer) recoverDead(ctx context.Context) error {
	workers, err := c.redis.SMembers(ctx, workersKey).Result()
	if err != nil {
		return fmt.Errorf("list the workers: %w", err)
	}
	for _, w := range workers {
		alive, err := c.redis.Exists(ctx, aliveKey(w)).Result()
		if err == nil && alive == 0 {
			err = c.putBack(ctx, w)
			if err == nil {
				err = forget.Run(ctx, c.redis, []string{aliveKey(w), processingKey(w), workersKey}, w).Err()
			}
		}
		if err != nil {
			return fmt.Errorf("put a dead worker's jobs back: %w", err)
		}
	}
	return nil
}

// forget takes a worker out of the set, unless it came back to life meanwhile.
var forget = redis.NewScript(`
if redis.call('EXISTS', KEYS[1], KEYS[2]) == 0 then
	redis.call('SREM', KEYS[3], ARGV[1])
end
return 0`)

// putBack moves all of a worker's jobs to where the next are taken from.
func (c *consumer) putBack(ctx context.Context, worker string) error {
	for {
		err := c.redis.LMove(ctx, processingKey(worker), queueKey, "RIGHT", "RIGHT").Err()
		if errors.Is(err, redis.Nil) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// next runs one job if there is one within the wait. A job that fails goes to the
// queue's end, after maxAttempts to the dead ones.
func (c *consumer) next(ctx context.Context, wait time.Duration) (found bool, err error) {
	if c.unsure {
		if err := c.putBack(ctx, c.name); err != nil {
			return false, fmt.Errorf("put own jobs back: %w", err)
		}
		c.unsure = false
	}
	var raw string
	if wait > 0 {
		raw, err = c.redis.BLMove(ctx, queueKey, processingKey(c.name), "RIGHT", "LEFT", wait).Result()
	} else { // BLMOVE takes 0 for ever
		raw, err = c.redis.LMove(ctx, queueKey, processingKey(c.name), "RIGHT", "LEFT").Result()
	}
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	if err != nil {
		c.unsure = true
		return false, fmt.Errorf("take a job: %w", err)
	}
	// A job that was taken is finished, also during a shutdown.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), jobTimeout)
	defer cancel()
	var j job
	failed := json.Unmarshal([]byte(raw), &j)
	if failed == nil {
		failed = c.do(ctx, j)
	} else {
		j.Attempt = maxAttempts // it will not get better
	}
	return true, errors.Join(failed, c.settle(ctx, raw, j, failed != nil))
}

// settle takes a job off the consumer's list, and in the same step says where it went.
func (c *consumer) settle(ctx context.Context, raw string, j job, failed bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), jobTimeout) // the job may have used its own up
	defer cancel()
	_, err := c.redis.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.LRem(ctx, processingKey(c.name), 1, raw)
		switch {
		case !failed:
			p.HIncrBy(ctx, "jobs:done", j.Kind, 1)
		case j.Attempt >= maxAttempts:
			p.LPush(ctx, deadKey, raw)
			p.LTrim(ctx, deadKey, 0, keptDead-1)
		default:
			j.Attempt++
			p.LPush(ctx, queueKey, j.encode())
		}
		return nil
	})
	if err != nil {
		c.unsure = true
		return fmt.Errorf("settle a %s job: %w", j.Kind, err)
	}
	return nil
}
