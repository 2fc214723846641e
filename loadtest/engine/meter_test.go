package engine

import (
	"testing"
	"time"

	"lab/loadtest/analysis"
)

func TestMeterWindow(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(s float64) time.Time { return start.Add(seconds(s)) }
	for _, row := range []struct {
		name          string
		intended, end float64
		arrivals      int64
		completed     int64
	}{
		{"both inside", 2, 3, 1, 1},
		{"ends exactly with the step", 9, 10, 1, 0},
		{"ends after it", 9, 11, 1, 0},
		{"begun in the discard, ends inside", 0.5, 1, 0, 1},
		{"both in the discard", 0.5, 0.9, 0, 0},
		{"starts exactly after the discard", 1, 1.5, 1, 1},
	} {
		p := analysis.Probe{Seconds: 10, DiscardSeconds: 1}
		m := newMeter(p, start)
		m.arrive(at(row.intended), at(row.intended), false)
		m.end(at(row.intended), at(row.intended), at(row.end), "")
		if s := m.close().Step(p); s.Arrivals != row.arrivals || s.Completed != row.completed {
			t.Errorf("%s: arrivals %d, completed %d; want %d, %d", row.name, s.Arrivals, s.Completed, row.arrivals, row.completed)
		}
	}
}

func TestMeterIntegratesInFlight(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(s float64) time.Time { return start.Add(seconds(s)) }
	p := analysis.Probe{Seconds: 5, DiscardSeconds: 1}
	m := newMeter(p, start)
	m.arrive(at(0), at(0), false)       // in flight from 0 to 3: 2 s of the window
	m.arrive(at(2.55), at(2.55), false) // never answered: 2.45 s of it
	m.end(at(0), at(0), at(3), "")
	m.arrive(at(4), at(4), true) // dropped: not in flight
	s := m.close().Step(p)
	within(t, "mean in flight", s.InFlightMean, (2+2.45)/4, 1e-9)
	if m.end(at(2.55), at(2.55), at(4.5), ""); m.tally.Completed != 1 {
		t.Error("an answer was counted after the close")
	}
}

func TestTrend(t *testing.T) {
	for _, row := range []struct {
		name   string
		values []float64
		want   float64
	}{
		{"nothing", nil, 0},
		{"one value", []float64{5}, 0},
		{"flat", []float64{3, 3, 3}, 0},
		{"two more each half second", []float64{1, 3, 5, 7}, 4},
	} {
		if got := trend(row.values, 0.5); got != row.want {
			t.Errorf("%s: %g, want %g", row.name, got, row.want)
		}
	}
}
