package engine

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

// comes adds a message at now. It reports whether its goroutine looks at the train.
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

// TestOpenIsLookedAtWhenDue adds messages at one pace to a train that stays open. The first message that comes when the
// train is due, or a quarter of linger later at most, looks at it, and earlier ones rarely do.
func TestOpenIsLookedAtWhenDue(t *testing.T) {
	for _, linger := range []time.Duration{50 * time.Microsecond, 100 * time.Microsecond, time.Millisecond} {
		for _, apart := range []time.Duration{20, 200, time.Microsecond, 7 * time.Microsecond, 20 * time.Microsecond, 45 * time.Microsecond} {
			var o open
			looks, due := 0, aMinute.Add(linger)
			for n, now := uint64(1), reliable.Instant(aMinute); ; n, now = n+1, now.Add(apart) {
				if !comes(&o, now) {
					if now > due.Add(max(apart, linger/4)) {
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
				o.give(false)
			}
			if looks > 12 {
				t.Errorf("linger %v, %v apart: looked at %d times", linger, apart, looks)
			}
		}
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
		{1, 0, 2}, {1, linger, 2}, {4, linger, 11}, {4, 2 * linger, 11}, {100, linger / 2, 99},
	} {
		o := open{opened: aMinute, count: c.count}
		o.pace(aMinute.Add(c.passed), linger)
		if o.give(false); o.gate.left() != c.want {
			t.Errorf("%d messages in %v: %d may pass unseen, want %d", c.count, c.passed, o.gate.left(), c.want)
		}
	}
}

// TestOpenThatIsNotTimed: after a send that panicked (a Trace of the user) the train has no time at which it is due,
// and the count of the messages sent. No message may pass the gate: none would be sent until the gate is used up.
func TestOpenThatIsNotTimed(t *testing.T) {
	o := open{count: 1, most: 1000}
	o.give(false)
	if left := o.gate.left(); left != 0 {
		t.Errorf("%d messages may be appended to a train that nothing sends", left)
	}
}
