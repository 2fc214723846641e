package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"lab/servicetest"
)

func newQueue(t *testing.T) *redis.Client {
	t.Helper()
	r, err := openRedis(newConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// recorder is a consumer that keeps the jobs it did, and fails as told.
func recorder(t *testing.T, r *redis.Client, did *[]int64, failure error) *consumer {
	t.Helper()
	c := newConsumer(r, func(_ context.Context, j job) error {
		*did = append(*did, j.Item)
		return failure
	})
	if err := c.signOfLife(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// drain runs jobs until there is none, and returns the errors' texts.
func drain(t *testing.T, c *consumer) (failures []string) {
	t.Helper()
	for range 100 {
		found, err := c.next(t.Context(), 0)
		if err != nil {
			failures = append(failures, err.Error())
		} else if !found {
			return failures
		}
	}
	t.Fatal("the queue has no end")
	return nil
}

func push(t *testing.T, r *redis.Client, items ...int64) {
	t.Helper()
	for _, i := range items {
		if err := enqueue(t.Context(), r, newJob("recount", i)); err != nil {
			t.Fatal(err)
		}
	}
}

func length(t *testing.T, r *redis.Client, key string) int64 {
	t.Helper()
	n, err := r.LLen(t.Context(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestJobsRunInTheirOrderAndAreSettled(t *testing.T) {
	r := newQueue(t)
	push(t, r, 1, 2, 3)
	var did []int64
	c := recorder(t, r, &did, nil)
	if failures := drain(t, c); failures != nil {
		t.Error(failures)
	}
	if diff := cmp.Diff([]int64{1, 2, 3}, did); diff != "" {
		t.Error(diff)
	}
	if n := length(t, r, processingKey(c.name)); n != 0 {
		t.Errorf("%d jobs are still in the worker's list", n)
	}
	if done := r.HGet(t.Context(), "jobs:done", "recount").Val(); done != "3" {
		t.Errorf("jobs:done is %q, want 3", done)
	}
}

func TestJobsOfADeadWorkerRunAgainAndNoneOfALivingOne(t *testing.T) {
	r := newQueue(t)
	push(t, r, 1, 2, 3)
	var did []int64
	dead, living, heir := recorder(t, r, &did, nil), recorder(t, r, &did, nil), recorder(t, r, &did, nil)
	for _, taker := range []*consumer{dead, living} { // each has taken a job and not settled it
		if err := r.LMove(t.Context(), queueKey, processingKey(taker.name), "RIGHT", "LEFT").Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Del(t.Context(), aliveKey(dead.name)).Err(); err != nil { // as after aliveFor
		t.Fatal(err)
	}
	if err := heir.recoverDead(t.Context()); err != nil {
		t.Fatal(err)
	}
	drain(t, heir)
	if diff := cmp.Diff([]int64{1, 3}, did); diff != "" {
		t.Errorf("the heir did (-want +got)\n%s", diff)
	}
	if n := length(t, r, processingKey(living.name)); n != 1 {
		t.Errorf("the living worker's list has %d jobs, want its 1", n)
	}
	if known := r.SIsMember(t.Context(), workersKey, dead.name).Val(); known {
		t.Error("the dead worker is still in the set")
	}
}

func TestJobTakenDuringAShutdownIsFinished(t *testing.T) {
	r := newQueue(t)
	push(t, r, 1)
	ctx, stop := context.WithCancel(t.Context())
	c := newConsumer(r, func(ctx context.Context, _ job) error {
		stop()
		return ctx.Err()
	})
	if _, err := c.next(ctx, 0); err != nil {
		t.Error(err)
	}
	if n := length(t, r, processingKey(c.name)); n != 0 {
		t.Errorf("%d jobs are still in the worker's list", n)
	}
}

func TestJobWhoseTakingGotNoAnswerRuns(t *testing.T) {
	r := newQueue(t)
	push(t, r, 1)
	var did []int64
	c := recorder(t, r, &did, nil)
	if err := r.LMove(t.Context(), queueKey, processingKey(c.name), "RIGHT", "LEFT").Err(); err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.next(gone, 0); err == nil {
		t.Fatal("no error without an answer")
	}
	drain(t, c)
	if diff := cmp.Diff([]int64{1}, did); diff != "" {
		t.Error(diff)
	}
}

func TestJobThatKeepsFailingIsGivenUp(t *testing.T) {
	r := newQueue(t)
	push(t, r, 1)
	var did []int64
	c := recorder(t, r, &did, errors.New("no luck"))
	if failures := drain(t, c); len(failures) != maxAttempts || !strings.Contains(failures[0], "no luck") {
		t.Errorf("failures %q, want %d", failures, maxAttempts)
	}
	if n := length(t, r, deadKey); n != 1 || len(did) != maxAttempts {
		t.Errorf("%d dead jobs after %d attempts, want 1 after %d", n, len(did), maxAttempts)
	}
}

func TestJobThatCannotBeReadIsGivenUpAtOnce(t *testing.T) {
	r := newQueue(t)
	if err := r.LPush(t.Context(), queueKey, "not JSON").Err(); err != nil {
		t.Fatal(err)
	}
	var did []int64
	c := recorder(t, r, &did, nil)
	if failures := drain(t, c); len(failures) != 1 || did != nil {
		t.Errorf("failures %q, jobs done %v", failures, did)
	}
	if n := length(t, r, deadKey); n != 1 {
		t.Errorf("%d dead jobs, want 1", n)
	}
}

func TestScheduleQueuesOncePerPeriodOfAllBeats(t *testing.T) {
	r := newQueue(t)
	start := time.Date(2026, 11, 30, 20, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		after time.Duration
		want  bool
	}{{0, true}, {0, false}, {59 * time.Second, false}, {time.Minute, true}, {61 * time.Second, false}, {time.Hour, true}} {
		got, err := schedule(t.Context(), r, start.Add(tt.after), time.Minute)
		if err != nil || got != tt.want {
			t.Errorf("after %v: queued %t, %v; want %t", tt.after, got, err, tt.want)
		}
	}
	if n := length(t, r, queueKey); n != 3 {
		t.Errorf("%d jobs are queued, want 3", n)
	}
}

func TestWriteIsCountedByTheWorker(t *testing.T) {
	c := newMigrated(t)
	s := newTestServer(t, c)
	s.want(201, s.do("POST", "/api/items/1/interactions", ""))
	if _, err := schedule(t.Context(), s.redis, time.Now(), time.Minute); err != nil { // and all the others
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- worker(ctx, c) }()
	err := servicetest.Until(func() error {
		if done := s.redis.HGet(t.Context(), "jobs:done", "recount").Val(); done != "2" {
			return errors.New("jobs done: " + done)
		}
		return nil
	})
	stop()
	if err := errors.Join(err, <-stopped); err != nil {
		t.Fatal(err)
	}
	got := queryText(t, c.databaseURL, "SELECT count(*) || ' ' || sum(interactions) || ' ' || (sum(likes) = (SELECT count(*) FROM catalogue.interaction WHERE kind = 'like')) FROM catalogue.statistic")
	if got != "42 6001 true" {
		t.Errorf("statistics %q, want 42 items, 6001 interactions, and all the likes", got)
	}
}

func TestBeatStopsAtOnceAndHasQueued(t *testing.T) {
	c := newConfig(t)
	c.beatEvery = time.Hour
	r, err := openRedis(c)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- beat(ctx, c) }()
	err = servicetest.Until(func() error {
		if length(t, r, queueKey) != 1 {
			return errors.New("nothing is queued")
		}
		return nil
	})
	stop()
	if err := errors.Join(err, <-stopped); err != nil {
		t.Error(err)
	}
}
