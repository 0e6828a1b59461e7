package reliable

import "time"

// awaiting shortens the interval of heartbeats while callers wait for subscribers: a joining receiver learns of the
// publisher by the next heartbeat. docs/protocol §5.7.
type awaiting struct {
	waiters int
	since   Instant       // when the first of them began
	least   time.Duration // minimum interval of heartbeats
}

const (
	// awaitHeartbeat is the shortest interval of heartbeats while a caller waits.
	awaitHeartbeat = 2 * time.Millisecond
	// awaitShare is the part of the time waited so far that the next interval lasts, so that the load of a long wait
	// decreases.
	awaitShare = 16
)

// step is the time from now to the next heartbeat; ladder is that of the ladder.
func (a *awaiting) step(now Instant, ladder time.Duration) time.Duration {
	if a.waiters == 0 {
		return ladder
	}
	return min(ladder, max(awaitHeartbeat, a.least, now.Sub(a.since)/awaitShare))
}

// Await begins a wait for subscribers, until Awaited. A heartbeat is sent at once, and later ones at shorter intervals.
// least is the minimum interval, for a publisher that waits in many groups.
func (s *Sender) Await(now Instant, least time.Duration) {
	a := &s.await
	if a.waiters++; a.waiters == 1 {
		a.since, a.least = now, least
	}
	s.heartbeat.by(now)
}

// Awaited ends a wait begun by Await.
func (s *Sender) Awaited() { s.await.waiters-- }
