package sample

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// Handler serves the counters at /sample to who has the token.
func Handler(r Reader, token string) http.Handler {
	want := []byte("Bearer " + token)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /sample", func(w http.ResponseWriter, req *http.Request) {
		if subtle.ConstantTimeCompare([]byte(req.Header.Get("Authorization")), want) != 1 {
			http.Error(w, "wrong token", http.StatusUnauthorized)
			return
		}
		c, err := r.Read()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(c) // the reader is gone: it will ask again
	})
	return mux
}

// Fetch reads a host's counters and the offset of its clock against this one:
// positive when it is ahead. Half the round trip is the offset's uncertainty.
func Fetch(ctx context.Context, client *http.Client, address, token string) (c Counters, offset time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/sample", nil)
	if err != nil {
		return c, 0, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	before := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return c, 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return c, 0, fmt.Errorf("sampler at %s: %s", address, resp.Status)
	}
	if err := json.NewDecoder(resp.Body).Decode(&c); err != nil {
		return c, 0, fmt.Errorf("sampler at %s: %w", address, err)
	}
	middle := before.Add(time.Since(before) / 2)
	return c, time.Unix(0, c.UnixNano).Sub(middle), nil
}
