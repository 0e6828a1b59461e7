package engine

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

// comes has a message come at now. It reports whether somebody looks at it.
func comes(o *open, now reliable.Instant) (looked bool) {
	if left := o.gate.enter(); left > 0 {
		o.gate.leave(left - 1)
		return false
	}
	o.take()
	o.count++
	if o.opened == 0 {
		o.opened = now
	}
	return true
}

// TestOpenIsLookedAtWhenDue has messages come at one pace into a train that stays open: somebody looks at the
// first message that comes when it is due, or a quarter of the time behind at most, and rarely before.
func TestOpenIsLookedAtWhenDue(t *testing.T) {
	for _, linger := range []time.Duration{50 * time.Microsecond, 100 * time.Microsecond, time.Millisecond} {
		for _, apart := range []time.Duration{20, 200, time.Microsecond, 7 * time.Microsecond, 20 * time.Microsecond, 45 * time.Microsecond} {
			var o open
			looks, due := 0, aMinute.Add(linger)
			for n, now := uint64(1), reliable.Instant(aMinute); ; n, now = n+1, now.Add(apart) {
				if !comes(&o, now) {
					if now > due.Add(max(apart, linger/lookedAgain)) {
						t.Fatalf("linger %v, %v apart: message %d passes unseen %v behind the time", linger, apart, n, now.Sub(due))
					}
					continue
				}
				if looks++; now >= due {
					break
				}
				if o.count != n {
					t.Fatalf("linger %v, %v apart: %d messages are counted of %d", linger, apart, o.count, n)
				}
				o.pace(now, linger)
				o.give(false, loneTrain)
			}
			if looks > 12 {
				t.Errorf("linger %v, %v apart: looked at %d times", linger, apart, looks)
			}
		}
	}
}

// TestOpenOfFullTrains has trains leave because they are full: of each somebody looks at the first message, at one
// in the middle and at the last, and where their publisher slows down no later than when the train is due.
func TestOpenOfFullTrains(t *testing.T) {
	const linger, train = loopPark, 921
	for _, apart := range []time.Duration{8, 18, 200} {
		o := open{before: apart}
		looks := 0
		for n, now := uint64(1), reliable.Instant(aMinute); n < train; n, now = n+1, now.Add(apart) {
			if !comes(&o, now) {
				continue
			}
			looks++
			if o.count != n {
				t.Fatalf("%v apart: %d messages are counted of %d", apart, o.count, n)
			}
			o.pace(now, linger)
			o.give(false, fullTrains)
		}
		if looks > 2 {
			t.Errorf("%v apart: looked at %d times before the train is full", apart, looks)
		}
	}
	for _, c := range []struct {
		count  uint64
		before time.Duration
		passed time.Duration
		trains openTrains
		want   uint64
	}{
		{1, 18, 0, loneTrain, 2},
		{1, 18, 0, severalTrains, 2},
		{1, 18, 0, fullTrains, firstUnseen},
		{1, 100 * time.Microsecond, 0, fullTrains, 10}, // due before firstUnseen have come
		{64, 18, 64 * time.Microsecond, fullTrains, 922},
		{64, 18, 64 * time.Microsecond, severalTrains, mostUnseen},
		{100, 18, linger / 2, fullTrains, 99},
	} {
		o := open{opened: aMinute, count: c.count, before: c.before}
		o.pace(aMinute.Add(c.passed), linger)
		if o.give(false, c.trains); o.gate.left() != c.want {
			t.Errorf("%d messages in %v, %v apart before, trains %d: %d may pass unseen, want %d", c.count, c.passed, c.before, c.trains, o.gate.left(), c.want)
		}
	}
	o := open{opened: aMinute, count: 64}
	o.pace(aMinute.Add(64*18), linger)
	if o.give(true, fullTrains); o.gate.left() != 0 {
		t.Errorf("%d may pass unseen where the publisher is shut", o.gate.left())
	}
}

// TestOpenThatWaitsLonger holds what waits longer than linger, as where a subscriber holds the publisher up, to be
// looked at as rarely as before, and what was not looked at twice.
func TestOpenThatWaitsLonger(t *testing.T) {
	const linger = 50 * time.Microsecond
	for _, c := range []struct {
		count  uint64
		passed time.Duration
		want   uint64
	}{
		{1, 0, 2}, {1, linger, 2}, {4, linger, 11}, {4, 2 * linger, 11}, {100, linger / 2, 99}, {100, linger - 1, 25},
	} {
		o := open{opened: aMinute, count: c.count}
		o.pace(aMinute.Add(c.passed), linger)
		if o.give(false, loneTrain); o.gate.left() != c.want {
			t.Errorf("%d messages in %v: %d may pass unseen, want %d", c.count, c.passed, o.gate.left(), c.want)
		}
	}
}

// TestOpenBeginsWithABurst has messages 20 µs apart, of which those that came while a train was sent come in one
// go at the beginning of the next: it leaves when it is due, and is looked at a few times.
func TestOpenBeginsWithABurst(t *testing.T) {
	const linger, apart, sending = 100 * time.Microsecond, 20 * time.Microsecond, 60 * time.Microsecond
	var o open
	due, now := aMinute, aMinute // due: when the next message is
	looks, trains := 0, 0
	for trains < 100 {
		now, due = max(now, due), due.Add(apart)
		if !comes(&o, now) {
			continue
		}
		looks++
		if waited := now.Sub(o.opened); waited >= linger {
			if trains > 0 && waited > linger+apart {
				t.Fatalf("train %d has waited for %v", trains, waited)
			}
			now = now.Add(sending)
			o.sent(now)
			o.empty()
			trains++
		}
		o.pace(now, linger)
		o.give(false, loneTrain)
	}
	if looks > 6*trains {
		t.Errorf("%d looks for %d trains", looks, trains)
	}
}
