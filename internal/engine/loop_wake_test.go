package engine

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

// A goroutine that needs the loop earlier wakes it only if it would sleep too long, wherever it sleeps.
func TestSleeperIsWokenOnlyIfItSleepsTooLong(t *testing.T) {
	const due = 100
	for _, c := range []struct {
		name    string
		until   reliable.Instant // 0: the loop runs
		rest    bool
		woken   bool // from the transport
		rested  bool // from its rest
		further bool // it looks once more before it sleeps next
	}{
		{"it runs", 0, false, false, false, true},
		{"it sleeps for less", due - 1, false, false, false, false},
		{"it sleeps until then", due, false, false, false, false},
		{"it sleeps too long", due + 1, false, true, false, true},
		{"it sleeps for ever", reliable.Never, false, true, false, true},
		{"it rests for less", due - 1, true, false, false, false},
		{"it rests too long", due + 1, true, false, true, true},
	} {
		woken := 0
		s := newSleeper(func() { woken++ })
		if c.until != 0 && !s.announce(c.until, c.rest) {
			t.Fatalf("%s: it does not sleep", c.name)
		}
		s.wakeBy(due)
		if rested := len(s.end) == 1; woken == 1 != c.woken || rested != c.rested {
			t.Errorf("%s: woken %d times, its rest has ended: %v", c.name, woken, rested)
		}
		if s.awake(); s.kicked() != c.further {
			t.Errorf("%s: further looks: %v", c.name, !c.further)
		}
	}
}

// A wish that comes between the last look and the announcement is not lost.
func TestSleeperLooksOnceMore(t *testing.T) {
	s := newSleeper(func() { t.Error("it was woken although it ran") })
	s.wakeBy(1)
	if s.announce(reliable.Never, false) {
		t.Error("it sleeps although a goroutine needs it")
	}
	if !s.announce(reliable.Never, false) {
		t.Error("it does not sleep")
	}
}

// What ends a rest before it begins ends it at once; endRest ends nothing but a rest.
func TestSleeperRests(t *testing.T) {
	s := newSleeper(func() { t.Error("the transport was woken") })
	s.announce(reliable.Never, true)
	s.endRest()
	s.rest(time.Hour)
	s.awake()
	s.announce(reliable.Never, false)
	s.endRest()
	if len(s.end) != 0 {
		t.Error("a loop that does not rest is woken from its rest")
	}
}
