package sample

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Handler serves the counters at /sample to who has the token, and at /services
// whether every service answers: 200, or 503 with the reasons.
func Handler(r Reader, token string) http.Handler {
	want := []byte("Bearer " + token)
	allowed := func(next http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, req *http.Request) {
			if subtle.ConstantTimeCompare([]byte(req.Header.Get("Authorization")), want) != 1 {
				http.Error(w, "wrong token", http.StatusUnauthorized)
				return
			}
			next(w, req)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /sample", allowed(func(w http.ResponseWriter, _ *http.Request) {
		c, err := r.Read()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(c) // the reader is gone: it will ask again
	}))
	mux.HandleFunc("GET /services", allowed(func(w http.ResponseWriter, _ *http.Request) {
		if _, err := r.Services.Read(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}))
	return mux
}

// Reading is a host's counters with the time they are of, on the clock of who
// asked: the middle of the round trip.
type Reading struct {
	At          time.Time
	RoundTrip   time.Duration // half of it is the uncertainty of At
	ClockOffset time.Duration // of the host's wall clock: positive when it is ahead
	Counters    Counters
}

// Fetch reads a host's counters.
func Fetch(ctx context.Context, client *http.Client, address, token string) (Reading, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/sample", nil)
	if err != nil {
		return Reading{}, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	before := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return Reading{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return Reading{}, fmt.Errorf("sampler at %s: %s", address, resp.Status)
	}
	r := Reading{}
	if err := json.NewDecoder(resp.Body).Decode(&r.Counters); err != nil {
		return r, fmt.Errorf("sampler at %s: %w", address, err)
	}
	_, _ = io.Copy(io.Discard, resp.Body) // so that the connection is kept
	r.RoundTrip = time.Since(before)
	r.At = before.Add(r.RoundTrip / 2)
	r.ClockOffset = time.Unix(0, r.Counters.UnixNano).Sub(r.At)
	return r, nil
}
