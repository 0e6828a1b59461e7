package engine

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

// publishAt adds a message at now. It reports whether the message checked the train.
func publishAt(o *open, now reliable.Instant) (checked bool) {
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

// TestOpenIsCheckedWhenDue adds messages at a steady rate to an open train. A message checks the train when it is due, or
// at most a quarter of linger later. Earlier messages rarely check it.
func TestOpenIsCheckedWhenDue(t *testing.T) {
	for _, linger := range []time.Duration{50 * time.Microsecond, 100 * time.Microsecond, time.Millisecond} {
		for _, apart := range []time.Duration{20, 200, time.Microsecond, 7 * time.Microsecond, 20 * time.Microsecond, 45 * time.Microsecond} {
			var o open
			checks, due := 0, aMinute.Add(linger)
			for n, now := uint64(1), reliable.Instant(aMinute); ; n, now = n+1, now.Add(apart) {
				if !publishAt(&o, now) {
					if now > due.Add(max(apart, linger/4)) {
						t.Fatalf("linger %v, %v apart: message %d, %v after the train is due, does not check it, want a check", linger, apart, n, now.Sub(due))
					}
					continue
				}
				if checks++; now >= due {
					break
				}
				if o.count != n {
					t.Fatalf("linger %v, %v apart: counted %d messages, want %d", linger, apart, o.count, n)
				}
				o.pace(now, linger)
				o.give(false)
			}
			if checks > 12 {
				t.Errorf("linger %v, %v apart: %d checks, want at most 12", linger, apart, checks)
			}
		}
	}
}

// TestOpenThatWaitsLonger checks that a train that waits longer than linger, because a subscriber blocks the publisher, is
// checked as rarely as before.
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
			t.Errorf("%d messages in %v: %d may follow without a check, want %d", c.count, c.passed, o.gate.left(), c.want)
		}
	}
}

// TestOpenThatIsNotTimed checks a train without a due time, as after a send that panicked in the user's Trace. No message
// may pass the gate, because nothing would send it.
func TestOpenThatIsNotTimed(t *testing.T) {
	o := open{count: 1, most: 1000}
	o.give(false)
	if left := o.gate.left(); left != 0 {
		t.Errorf("a train that nothing will send admits %d more messages, want 0", left)
	}
}
