// Package slow implements the policies for subscriptions that read more slowly than publishers publish: which cursors
// block publishers, when a cursor jumps to the newest packet or is ended (Policy), and which messages are queued if
// only the newest of each key is needed (Conflation). It has no clock, no goroutine and no lock.
package slow

import "time"

// Kind is the policy for a subscription that reads too slowly.
type Kind uint8

const (
	// Auto is Block for publishers with flow control, and Gap for those without and while its Conflation is crowded.
	Auto Kind = iota
	// Block blocks publishers, if their flow control permits it, and so also other subscriptions of the same bus.
	Block
	// Gap loses the oldest packets, as gaps, when the window is full.
	Gap
	// Latest jumps to the newest packet when it is too far behind: the skipped packets are one gap.
	Latest
	// Evict ends the subscription when it is too far behind.
	Evict
	// Kinds is the number of kinds.
	Kinds
)

// Policy is a kind and, for Latest and Evict, the limit of how far behind a subscription may be.
type Policy struct {
	Kind   Kind
	Behind int // packets of one publisher; 0: Bound decides
}

// Blocks reports whether a cursor blocks its publisher. free means that the publisher has no flow control, crowded that
// the cursor's Conflation is crowded (Conflation.Crowded).
func (p Policy) Blocks(free, crowded bool) bool {
	return p.Kind == Block || p.Kind == Auto && !free && !crowded
}

// OwnGoroutine reports whether handlers run in a separate goroutine: in the bus's goroutine they would block everything
// else on the bus.
func (p Policy) OwnGoroutine() bool { return p.Kind != Auto && p.Kind != Block }

// Bound returns how many packets a cursor may be behind in a window of span packets: at most half of them, so that a
// burst that fills the other half before the reader reads again does not cause a second gap.
func (p Policy) Bound(span int) int {
	half := max(1, span/2)
	if p.Behind <= 0 {
		return half
	}
	return min(p.Behind, half)
}

// Act is the action for a cursor that is behind.
type Act uint8

const (
	Read Act = iota // continue normally
	Jump            // to the newest packet
	End             // end the subscription
)

// Act returns the action for a cursor that is lag packets behind, with bound allowed. overtaken means that the window
// was full and it has already lost packets.
func (p Policy) Act(lag, bound int, overtaken bool) Act {
	switch late := lag > bound || overtaken; {
	case late && p.Kind == Latest:
		return Jump
	case late && p.Kind == Evict:
		return End
	}
	return Read
}

// Lateness records since when a cursor is behind by more than half of its bound.
type Lateness struct{ since time.Duration }

// Record records that the cursor is lag packets behind at now, which must not be zero, with bound allowed. It returns
// the time for which it has been behind.
func (x *Lateness) Record(now time.Duration, lag, bound int) time.Duration {
	switch {
	case lag <= bound/2:
		x.since = 0
		return 0
	case x.since == 0:
		x.since = now
	}
	return now - x.since
}
