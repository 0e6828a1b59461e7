package driver

import (
	"testing"
	"time"
)

// The next send is expected for as long as two of them have come apart, where they come within milliseconds.
func TestRhythm(t *testing.T) {
	for _, c := range []struct {
		name  string
		apart time.Duration
		sends int
		want  time.Duration // after the last; 0: none is expected
	}{
		{"the first", time.Millisecond, 1, 0},
		{"close", 20 * time.Microsecond, 100, 40 * time.Microsecond},
		{"as in one of many groups", 320 * time.Microsecond, 100, 640 * time.Microsecond},
		{"just close enough", mostRhythm - 100*time.Microsecond, 100, 2*mostRhythm - 200*time.Microsecond},
		{"too far apart", mostRhythm + 100*time.Microsecond, 100, 0},
		{"rare", time.Second, 100, 0},
	} {
		r, now := rhythm{apart: 2 * mostRhythm}, aMinute
		for range c.sends {
			now = now.Add(c.apart)
			r.sent(now)
		}
		got := r.next()
		if c.want == 0 && got != 0 || c.want != 0 && (got < now.Add(c.want) || got > now.Add(c.want+c.want/100)) {
			t.Errorf("%s: the next is expected %v after the last, want %v", c.name, got.Sub(now), c.want)
		}
	}
	r, now := rhythm{apart: mostRhythm / 2}, aMinute
	for r.sent(now); r.next() != 0; r.sent(now) {
		if now = now.Add(time.Second); now.Sub(aMinute) > 10*time.Second {
			t.Fatal("a rhythm that has ended is expected for ever")
		}
	}
}

// A bus is pressed whose sends take most of the time.
func TestBatcherPressed(t *testing.T) {
	const cost = 10 * time.Microsecond
	for _, c := range []struct {
		apart time.Duration
		idle  bool
		want  bool
	}{{30 * time.Microsecond, true, false}, {15 * time.Microsecond, true, true}, {time.Millisecond, true, false}, {time.Millisecond, false, true}} {
		b, now := batcherAt(aMinute, cost), aMinute
		for range 100 {
			now = now.Add(c.apart)
			b.sending(now, c.idle, false)
		}
		if b.pressed() != c.want {
			t.Errorf("sends of %v each %v (idle: %v): pressed is %v", cost, c.apart, c.idle, !c.want)
		}
	}
}
