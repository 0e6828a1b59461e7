package transport

import (
	"sync/atomic"
	"time"
)

// Unread follows for how long packets may have lain unread in a transport, so that the time in which their receiver did
// not read is not taken for their age. Its user notes each Poll and Wait, by a clock that is never set.
type Unread struct {
	read time.Duration // all that came before is read by the end of the round (Batch.More)
	came atomic.Int64  // no packet of the round came before
}

// Polls notes that a Poll begins at now. more is Batch.More of the one before.
func (u *Unread) Polls(now time.Duration, more bool) {
	if !more {
		u.came.Store(int64(u.read))
		u.read = now
	}
}

// Waited notes a Wait that took d: packets end it. Beyond its timeout the process did not run.
func (u *Unread) Waited(d, timeout time.Duration) {
	if timeout >= 0 {
		d = min(d, timeout)
	}
	u.read += max(0, d)
}

// For is for how long a packet that is read at now may have lain there. Any goroutine may call it.
func (u *Unread) For(now time.Duration) time.Duration {
	return max(0, now-time.Duration(u.came.Load()))
}
