package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"
)

const (
	maxBodyBytes = 1 << 10
	maxWorkMs    = 10_000
	defaultItem  = "7" // of /api/item without an id

	// afterCommitTimeout bounds what follows a committed write, also when the client
	// has gone.
	afterCommitTimeout = 5 * time.Second
)

// readList answers with the rows of a question that has no parameter.
func readList[T any](s *server, question shapes) func(*http.Request) answer {
	sql := question.sql(s.config.correlated)
	return func(r *http.Request) answer {
		return s.cached(r, r.URL.Path, func(ctx context.Context) (any, error) {
			return rows[T](ctx, s.reads, sql)
		})
	}
}

func (s *server) item(r *http.Request) answer {
	text := r.PathValue("id")
	if text == "" {
		text = r.URL.Query().Get("id")
	}
	if text == "" {
		text = defaultItem
	}
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return failure(r.Context(), errNoItem)
	}
	return s.cached(r, "/api/items/"+strconv.FormatInt(id, 10), func(ctx context.Context) (any, error) {
		found, err := rows[item](ctx, s.reads, itemSQL.sql(s.config.correlated), id)
		if err == nil && len(found) == 0 {
			err = errNoItem
		}
		if err != nil {
			return nil, err
		}
		return found[0], nil
	})
}

// cached answers an anonymous reader from the cache, and everyone from the database.
// The query string is no part of the name: no endpoint reads one beyond the id.
func (s *server) cached(r *http.Request, name string, read func(context.Context) (any, error)) answer {
	var key, outcome string
	if s.cache.ttl > 0 {
		outcome = "bypass"
		if anonymous(r) {
			outcome = "miss"
			var body []byte
			if body, key = s.cache.get(r.Context(), name); body != nil {
				return answer{http.StatusOK, body, "hit"}
			}
			if key == "" {
				outcome = "error"
			}
		}
	}
	found, err := read(r.Context())
	if err != nil {
		return failure(r.Context(), err)
	}
	body, err := json.Marshal(found)
	if err != nil {
		return failure(r.Context(), err)
	}
	s.cache.put(r.Context(), key, body)
	return answer{http.StatusOK, body, outcome}
}

// interact records an interaction. After the commit the cache's generation moves on
// and a job is queued; a failure of either does not undo the write, so it is logged
// and counted, and the answer stays 201.
func (s *server) interact(r *http.Request) answer {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {
		return failure(r.Context(), errNoItem)
	}
	kind, err := interactionKind(r.Body)
	if err != nil {
		return problem(http.StatusBadRequest, err.Error())
	}
	if err := interact(r.Context(), s.primary, id, kind); err != nil {
		return failure(r.Context(), err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), afterCommitTimeout)
	defer cancel()
	if err := s.cache.invalidate(ctx); err != nil {
		s.metrics.lost.WithLabelValues("invalidate").Inc()
		s.complain(ctx, slog.LevelError, "after a write", err)
	}
	if err := enqueue(ctx, s.redis, newJob("recount", id)); err != nil {
		s.metrics.lost.WithLabelValues("enqueue").Inc()
		s.complain(ctx, slog.LevelError, "after a write", err)
	}
	body, err := json.Marshal(map[string]any{"item": id, "kind": kind})
	if err != nil {
		return failure(r.Context(), err)
	}
	return answer{status: http.StatusCreated, body: body}
}

// interactionKind reads the body {"kind": "like"|"view"|"share"}; none is a like.
func interactionKind(body io.Reader) (string, error) {
	wanted := struct {
		Kind string `json:"kind"`
	}{Kind: "like"}
	decoder := json.NewDecoder(body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&wanted); err != nil && !errors.Is(err, io.EOF) {
		return "", errors.New(`body: want {"kind": "like"}`)
	}
	switch wanted.Kind {
	case "like", "view", "share":
		return wanted.Kind, nil
	}
	return "", errors.New("kind: want like, view or share")
}

// work does a fixed amount of CPU work, in turn: as many at once as there are
// processors. So an overload leaves no heap of half-done work, and none is begun for
// a client that gave up while it waited.
func (s *server) work(r *http.Request) answer {
	ms, err := strconv.ParseInt(r.URL.Query().Get("ms"), 10, 64)
	if err != nil || ms < 1 || ms > maxWorkMs {
		return problem(http.StatusBadRequest, "ms: want 1 to 10000")
	}
	select {
	case s.working <- struct{}{}:
		defer func() { <-s.working }()
	case <-r.Context().Done():
	}
	if err := r.Context().Err(); err != nil {
		return failure(r.Context(), err)
	}
	iterations := ms * s.config.iterationsPerMs
	sum := work(iterations)
	body, err := json.Marshal(map[string]any{"ms": ms, "iterations": iterations, "sum": fmt.Sprintf("%x", sum[:8])})
	if err != nil {
		return failure(r.Context(), err)
	}
	return answer{status: http.StatusOK, body: body}
}

func problem(status int, text string) answer {
	body, err := json.Marshal(map[string]string{"error": text})
	if err != nil { // a string always encodes
		panic(err)
	}
	return answer{status: status, body: body}
}

// failure is the answer for an error. Its cause goes to the log: at debug, since at
// overload there is one for each request.
func failure(ctx context.Context, err error) answer {
	switch {
	case errors.Is(err, errNoItem):
		return problem(http.StatusNotFound, errNoItem.Error())
	case errors.Is(err, context.DeadlineExceeded):
		return problem(http.StatusGatewayTimeout, "timeout")
	}
	slog.DebugContext(ctx, "request", "error", err)
	return problem(http.StatusServiceUnavailable, "unavailable")
}
