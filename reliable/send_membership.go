package reliable

import "time"

// membership is where a subscriber stands with flow control. docs/protocol §8.4, §8.5, §8.7.
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
//	            returns: it has room, and nothing that it misses is gone; if it was
//	            too slow, it is less behind, too
//
// Flow control waits only for members that follow or hold.
type membership struct {
	state      memberState
	since      upTime        // it holds: from when on
	held       time.Duration // it was released: for how long it had held the publisher up, or was too far behind
	slow       bool          // it was released because it stayed behind
	endAnswers int           // heartbeats of the end that it has answered
}

type memberState uint8

const (
	memberFollows memberState = iota
	memberHolds
	memberReleased
)

// holds notes that a packet waits for it at now.
func (m *membership) holds(now upTime) {
	if m.state == memberFollows {
		*m = membership{state: memberHolds, since: now}
	}
}

// follows notes that nothing waits for it.
func (m *membership) follows() {
	if m.state == memberHolds {
		*m = membership{}
	}
}

// release ends that it is waited for.
func (m *membership) release(now upTime) {
	if m.state == memberHolds {
		*m = membership{state: memberReleased, held: now.sub(m.since)}
	}
}

// tooSlow ends that it is waited for, since it has been too far behind for d.
func (m *membership) tooSlow(d time.Duration) {
	if m.waitedFor() {
		*m = membership{state: memberReleased, held: d, slow: true}
	}
}

// returns takes back one that was released.
func (m *membership) returns() {
	if m.state == memberReleased {
		*m = membership{}
	}
}

// waitedFor reports whether it counts for flow control.
func (m *membership) waitedFor() bool { return m.state != memberReleased }

// isHolding reports whether it holds the publisher up, and away whether it was released.
func (m *membership) isHolding() bool { return m.state == memberHolds }
func (m *membership) away() bool      { return m.state == memberReleased }

// heldFor is for how long it holds the publisher up, or has until it was released.
func (m *membership) heldFor(now upTime) time.Duration {
	if m.state == memberHolds {
		return now.sub(m.since)
	}
	return m.held
}
