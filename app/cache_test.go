package main

import (
	"testing"
	"time"
)

func newCached(t *testing.T) *testServer {
	t.Helper()
	c := newMigrated(t)
	c.cacheTTL = time.Hour
	return newTestServer(t, c)
}

func TestCacheAnswersTheSecondAnonymousRead(t *testing.T) {
	s := newCached(t)
	for _, path := range []string{"/api/items", "/api/items/1", "/api/popular", "/api/latest", "/api/tags"} {
		first, second := s.want(200, s.get(path)), s.want(200, s.get(path+"?other=query"))
		if first.cache != "miss" || second.cache != "hit" || first.body != second.body {
			t.Errorf("%s: %s then %s, the same body: %t; want miss, hit, true", path, first.cache, second.cache, first.body == second.body)
		}
	}
	if got := s.get("/api/items/2").cache; got != "miss" {
		t.Errorf("another item: %s, want a miss", got)
	}
}

func TestCacheIsOffByDefault(t *testing.T) {
	s := newTestServer(t, newMigrated(t))
	for range 2 {
		if got := s.want(200, s.get("/api/items")).cache; got != "" {
			t.Errorf("X-Cache is %q without a cache", got)
		}
	}
}

func TestCacheIsBypassedForWhoIsNotAnonymous(t *testing.T) {
	s := newCached(t)
	for _, headers := range [][]string{{"Authorization", "Bearer x"}, {"Cookie", "session=x"}} {
		// Nothing of theirs is kept: a later anonymous read still misses.
		s.want(200, s.get("/api/items", headers...))
	}
	if got := s.get("/api/items").cache; got != "miss" {
		t.Errorf("the first anonymous read: %s, want a miss", got)
	}
	// Nothing kept reaches them: they see what the database holds now.
	execSQL(t, s.config.databaseURL, "UPDATE catalogue.item SET title = 'renamed' WHERE id = 1")
	for _, headers := range [][]string{{"Authorization", "Bearer x"}, {"Cookie", "session=x"}} {
		got := s.want(200, s.get("/api/items", headers...))
		if got.cache != "bypass" || !contains(got, "renamed") {
			t.Errorf("with %v: %s %.60s; want a bypass to the database", headers[:1], got.cache, got.body)
		}
	}
	if got := s.get("/api/items"); got.cache != "hit" || contains(got, "renamed") {
		t.Errorf("anonymous: %s, want the kept answer", got.cache)
	}
}

func TestCommittedWriteInvalidatesEveryAnswer(t *testing.T) {
	s := newCached(t)
	before := map[string]string{}
	for range 2 {
		for _, path := range readPaths {
			before[path] = s.get(path).body
		}
	}
	s.want(201, s.do("POST", "/api/items/1/interactions", ""))
	for _, path := range []string{"/api/items", "/api/items/1", "/api/popular", "/api/latest"} {
		if got := s.get(path); got.cache != "miss" || got.body == before[path] {
			t.Errorf("%s after a write: %s, changed: %t; want a miss and a new answer", path, got.cache, got.body != before[path])
		}
	}
}

func TestWriteThatWasNotCommittedInvalidatesNothing(t *testing.T) {
	s := newCached(t)
	s.get("/api/items")
	s.want(404, s.do("POST", "/api/items/9999/interactions", ""))
	if got := s.get("/api/items").cache; got != "hit" {
		t.Errorf("after a refused write: %s, want a hit", got)
	}
}

// A slow reader has read its rows before a write committed, and keeps its answer
// after it.
func TestAnswerReadBeforeAWriteIsNeverServedAfterIt(t *testing.T) {
	s := newCached(t)
	_, key := s.cache.get(t.Context(), "/api/tags")
	s.want(201, s.do("POST", "/api/items/1/interactions", ""))
	s.cache.put(t.Context(), key, []byte(`"stale"`))
	if got := s.want(200, s.get("/api/tags")); got.cache != "miss" || got.body == `"stale"` {
		t.Errorf("%s %s; want a miss", got.cache, got.body)
	}
}

// Redis may evict the generation under allkeys-lru, and forgets it at a restart.
func TestLostGenerationNeverBringsOldAnswersBack(t *testing.T) {
	s := newCached(t)
	for range 3 {
		_, key := s.cache.get(t.Context(), "/api/tags")
		s.cache.put(t.Context(), key, []byte(`"stale"`))
		if err := s.redis.Del(t.Context(), generationKey).Err(); err != nil {
			t.Fatal(err)
		}
		if got := s.get("/api/tags"); got.cache != "miss" {
			t.Errorf("after the generation was lost: %s, want a miss", got.cache)
		}
		s.want(201, s.do("POST", "/api/items/1/interactions", ""))
		if got := s.get("/api/tags"); got.cache != "miss" {
			t.Errorf("and after a write: %s, want a miss", got.cache)
		}
	}
}

func TestReadsAndWritesGoOnWithoutRedis(t *testing.T) {
	c := newMigrated(t)
	c.cacheTTL, c.redisURL = time.Hour, "redis://127.0.0.1:1/0"
	s := newTestServer(t, c)
	if got := s.want(200, s.get("/api/items")).cache; got != "error" {
		t.Errorf("X-Cache is %q, want error", got)
	}
	s.want(201, s.do("POST", "/api/items/1/interactions", ""))
	s.want(503, s.get("/readyz"))
	metrics := s.get("/metrics")
	for _, want := range []string{`app_after_commit_failures_total{what="invalidate"} 1`, `app_after_commit_failures_total{what="enqueue"} 1`} {
		if !contains(metrics, want) {
			t.Errorf("/metrics has no %s", want)
		}
	}
}
