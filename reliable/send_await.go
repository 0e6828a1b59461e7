package reliable

import "time"

// awaiting sends heartbeats faster while callers wait for subscribers: a joining subscriber learns of the publisher by
// the next heartbeat. docs/protocol §5.7.
type awaiting struct {
	waiters int
	since   Instant       // the first of them began
	least   time.Duration // between two heartbeats
}

const (
	// awaitHeartbeat is the interval of heartbeats while a caller waits.
	awaitHeartbeat = 2 * time.Millisecond
	// awaitShare is the part of the time waited so far that the next interval may have:
	// a long wait is not a load for long.
	awaitShare = 16
)

// step is how long after now the next heartbeat follows, where the ladder says that.
func (a *awaiting) step(now Instant, ladder time.Duration) time.Duration {
	if a.waiters == 0 {
		return ladder
	}
	return min(ladder, max(awaitHeartbeat, a.least, now.Sub(a.since)/awaitShare))
}

// Await begins to wait for subscribers: heartbeats follow each other faster, the first one at once, until as many calls
// of Awaited. least bounds the rate for a publisher that waits in many groups.
func (s *Sender) Await(now Instant, least time.Duration) {
	a := &s.await
	if a.waiters++; a.waiters == 1 {
		a.since, a.least = now, least
	}
	s.heartbeat.by(now)
}

// Awaited ends what a call of Await has begun.
func (s *Sender) Awaited() { s.await.waiters-- }
