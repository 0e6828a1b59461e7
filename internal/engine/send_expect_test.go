package engine

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
		r, now := newRhythm(), aMinute
		for range c.sends {
			now = now.Add(c.apart)
			r.sent(now)
		}
		got := r.next()
		if c.want == 0 && got != 0 || c.want != 0 && (got < now.Add(c.want) || got > now.Add(c.want+c.want/100)) {
			t.Errorf("%s: the next is expected %v after the last, want %v", c.name, got.Sub(now), c.want)
		}
	}
	r, now := rhythm{between: mostRhythm / 2}, aMinute
	for r.sent(now); r.next() != 0; r.sent(now) {
		if now = now.Add(time.Second); now.Sub(aMinute) > 10*time.Second {
			t.Fatal("a rhythm that has ended is expected for ever")
		}
	}
}

// One pause ends no rhythm, and bursts have none.
func TestRhythmOfBursts(t *testing.T) {
	const apart = 320 * time.Microsecond
	r, now := newRhythm(), aMinute
	for range 100 {
		now = now.Add(apart)
		r.sent(now)
	}
	now = now.Add(10 * time.Millisecond)
	if r.sent(now); r.next() == 0 {
		t.Error("a pause has ended it")
	}
	for _, burst := range []int{2, 4, 8, 20} {
		r, now = newRhythm(), aMinute
		for i := range 50 * burst {
			if now = now.Add(15 * time.Microsecond); i%burst == 0 {
				now = now.Add(5 * time.Millisecond)
			}
			if r.sent(now); i > 3*burst && i%burst == burst-1 && r.next().Sub(now) > 2*leastPause {
				t.Fatalf("bursts of %d: behind one the next is expected in %v", burst, r.next().Sub(now))
			}
		}
	}
}

// A bus is pressed whose sends take most of the time, whoever makes them and whatever it sends.
func TestBatcherPressed(t *testing.T) {
	const cost = 10 * time.Microsecond
	for _, c := range []struct {
		name  string
		apart time.Duration
		burst int // sends one behind the other
		want  bool
	}{
		{"a third of the time", 30 * time.Microsecond, 1, false},
		{"two thirds", 15 * time.Microsecond, 1, true},
		{"full trains now and then", time.Millisecond, 1, false},
		{"a large message each 5 ms", 5 * time.Millisecond, 4, false},
		{"larger ones", 20 * time.Millisecond, 40, false},
	} {
		b, now := batcherAt(aMinute, cost), aMinute
		b.load = load{apart: loadMost * cost, began: now}
		for range 1000 {
			now = now.Add(c.apart)
			for i := range c.burst {
				begin := now.Add(time.Duration(i) * cost)
				b.sending(begin, false, false)
				b.took(begin, begin.Add(cost), true)
			}
		}
		if b.pressed() != c.want {
			t.Errorf("%s: pressed is %v", c.name, !c.want)
		}
	}
}
