package transport

import (
	"sync/atomic"
	"time"
)

// Unread tracks how long packets may have waited unread in a transport, so that this time does not count as their age.
// Its user reports each Poll and Wait, by a monotonic clock.
type Unread struct {
	read         time.Duration // packets that arrived before are read by the end of the round (Batch.More)
	arrivedAfter atomic.Int64  // no packet of the round arrived before
}

// Polls records that a Poll begins at now. more is Batch.More of the previous Poll.
func (u *Unread) Polls(now time.Duration, more bool) {
	if !more {
		u.arrivedAfter.Store(int64(u.read))
		u.read = now
	}
}

// Waited records a Wait that took d. Packets end a Wait, so for the time beyond its timeout the process did not run.
func (u *Unread) Waited(d, timeout time.Duration) {
	if timeout >= 0 {
		d = min(d, timeout)
	}
	u.read += max(0, d)
}

// For is how long a packet that is read at now may have waited. Any goroutine may call it.
func (u *Unread) For(now time.Duration) time.Duration {
	return max(0, now-time.Duration(u.arrivedAfter.Load()))
}
