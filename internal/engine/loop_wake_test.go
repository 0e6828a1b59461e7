package engine

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

// A goroutine that needs the loop earlier wakes it only if the loop would sleep too long, at rest or in the transport.
func TestSleeperIsWokenOnlyIfItSleepsTooLong(t *testing.T) {
	const due = 100
	for _, c := range []struct {
		name   string
		until  reliable.Instant // 0: the loop runs
		rest   bool
		woken  bool // woken from the transport
		rested bool // woken from its rest
		kicked bool // the loop must check once more before it sleeps
	}{
		{"runs", 0, false, false, false, true},
		{"sleeps for less", due - 1, false, false, false, false},
		{"sleeps until due", due, false, false, false, false},
		{"sleeps too long", due + 1, false, true, false, true},
		{"sleeps without a limit", reliable.Never, false, true, false, true},
		{"rests for less", due - 1, true, false, false, false},
		{"rests too long", due + 1, true, false, true, true},
	} {
		woken := 0
		s := newSleeper(func() { woken++ })
		if c.until != 0 && !s.announce(c.until, c.rest) {
			t.Fatalf("%s: announce returned false, want true", c.name)
		}
		s.wakeBy(due)
		if rested := len(s.end) == 1; woken == 1 != c.woken || rested != c.rested {
			t.Errorf("%s: woken %d times, rest ended %v, want woken %v and %v", c.name, woken, rested, c.woken, c.rested)
		}
		if s.awake(); s.kicked() != c.kicked {
			t.Errorf("%s: kicked returned %v, want %v", c.name, !c.kicked, c.kicked)
		}
	}
}

// A request between the last check and the announcement is not lost.
func TestSleeperChecksOnceMore(t *testing.T) {
	s := newSleeper(func() { t.Error("the transport was woken while the loop runs, want no wake-up") })
	s.wakeBy(1)
	if s.announce(reliable.Never, false) {
		t.Error("announce returned true after a request, want false")
	}
	if !s.announce(reliable.Never, false) {
		t.Error("the second announce returned false, want true")
	}
}

// A call of endRest before a rest ends the rest at once. Without a rest it has no effect.
func TestSleeperRests(t *testing.T) {
	s := newSleeper(func() { t.Error("the transport was woken, want no wake-up") })
	s.announce(reliable.Never, true)
	s.endRest()
	s.rest(time.Hour)
	s.awake()
	s.announce(reliable.Never, false)
	s.endRest()
	if len(s.end) != 0 {
		t.Errorf("%d wake-ups of a loop that does not rest, want 0", len(s.end))
	}
}
