package reliable

import "time"

// membership is a member's state in flow control. docs/protocol §8.4, §8.5, §8.7.
//
//	          holds: a packet waits for it
//	┌─────────┐ ────────────────────────► ┌───────┐ release: for StallLimit ┌──────────┐
//	│ follows │                           │ holds │ ──────────────────────► │ released │
//	└─────────┘ ◄──────────────────────── └───────┘                         └──────────┘
//	  ▲   │     follows: it lets a packet     │                               ▲   │
//	  │   │     through, or nothing waits     │                               │   │
//	  │   └───────────────────────────────────┴───────────────────────────────┘   │
//	  │         tooSlow: it stays behind by more than SlowLimit                   │
//	  └───────────────────────────────────────────────────────────────────────────┘
//	            returns: it has room, and the publisher still has all that it
//	            misses; if it was too slow, it must also be less behind
//
// Flow control waits only for members that follow or hold.
type membership struct {
	state      memberState
	since      upTime        // holds: since when
	held       time.Duration // released: how long it had blocked the publisher, or was too far behind
	slow       bool          // released because it stayed behind
	endAnswers int           // heartbeats with the end flag that it has answered
}

type memberState uint8

const (
	memberFollows memberState = iota
	memberHolds
	memberReleased
)

// holds records that a packet waits for m at now.
func (m *membership) holds(now upTime) {
	if m.state == memberFollows {
		*m = membership{state: memberHolds, since: now}
	}
}

// follows records that no packet waits for m.
func (m *membership) follows() {
	if m.state == memberHolds {
		*m = membership{}
	}
}

// release ends the wait for m.
func (m *membership) release(now upTime) {
	if m.state == memberHolds {
		*m = membership{state: memberReleased, held: now.sub(m.since)}
	}
}

// tooSlow ends the wait for m, which has been too far behind for d.
func (m *membership) tooSlow(d time.Duration) {
	if m.waitedFor() {
		*m = membership{state: memberReleased, held: d, slow: true}
	}
}

// returns ends a release.
func (m *membership) returns() {
	if m.state == memberReleased {
		*m = membership{}
	}
}

// waitedFor reports whether m is not released.
func (m *membership) waitedFor() bool { return m.state != memberReleased }

// isHolding reports whether m blocks the publisher, away whether it is released.
func (m *membership) isHolding() bool { return m.state == memberHolds }
func (m *membership) away() bool      { return m.state == memberReleased }

// heldFor is how long m has blocked the publisher, or had when it was released.
func (m *membership) heldFor(now upTime) time.Duration {
	if m.state == memberHolds {
		return now.sub(m.since)
	}
	return m.held
}
