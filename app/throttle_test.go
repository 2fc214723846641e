package main

import (
	"testing"
	"time"
)

func TestThrottle(t *testing.T) {
	for _, tt := range []struct {
		name    string
		rateRPS float64
		atMs    []int64
		want    string // y or n for each request
	}{
		{"rate 0 lets all through", 0, []int64{0, 0, 0, 0}, "yyyy"},
		{"one second's requests may come at once", 2, []int64{0, 0, 0}, "yyn"},
		{"tokens come back at the rate", 2, []int64{0, 0, 0, 499, 500, 500, 1000}, "yynnyny"},
		{"no more than a second's tokens are saved up", 2, []int64{0, 60_000, 60_000, 60_000}, "yyyn"},
		{"a rate below 1 still lets requests through", 0.5, []int64{0, 1000, 2000, 3999, 4000}, "ynyny"},
		{"a clock read out of order takes no token away", 2, []int64{1000, 900, 1000, 1500}, "yyny"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			throttle := throttle{rateRPS: tt.rateRPS}
			got := ""
			for _, ms := range tt.atMs {
				if throttle.allow(time.UnixMilli(1_000_000 + ms)) {
					got += "y"
				} else {
					got += "n"
				}
			}
			if got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
