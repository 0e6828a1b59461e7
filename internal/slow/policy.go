// Package slow decides how a subscription that reads more slowly than its publishers publish is treated: which cursors
// hold publishers up, when one jumps to the newest packet or is ended (Policy), and which messages wait when only the
// newest of each key is wanted (Conflation). It has no clock, no goroutine and no lock.
package slow

import "time"

// Kind is the treatment of a subscription that reads too slowly.
type Kind uint8

const (
	// Auto is Block towards publishers with flow control, and Gap towards those without, and while a
	// Conflation that it fills is crowded.
	Auto Kind = iota
	// Block holds publishers up as far as their flow control lets it, and the neighbours on the same bus with them.
	Block
	// Gap loses the oldest packets, as gaps, when the window is full.
	Gap
	// Latest jumps to the newest packet when it is too far behind: the skipped packets are one gap.
	Latest
	// Evict ends the subscription when it is too far behind.
	Evict
	// Kinds is how many there are.
	Kinds
)

// Policy is a kind and how far behind Latest and Evict let a subscription fall.
type Policy struct {
	Kind   Kind
	Behind int // packets of one publisher; 0: Bound decides
}

// Blocks reports whether a cursor holds its publisher up. free means that the publisher has no flow
// control, crowded that the cursor reads into a crowded Conflation (Conflation.Crowded).
func (p Policy) Blocks(free, crowded bool) bool {
	return p.Kind == Block || p.Kind == Auto && !free && !crowded
}

// OwnGoroutine reports whether handlers run in a goroutine of their own: the bus's own would
// be held up by them, and with it all else on the bus.
func (p Policy) OwnGoroutine() bool { return p.Kind != Auto && p.Kind != Block }

// Bound is how many packets a cursor may be behind in a window of span packets. It is half of them at most: a burst
// that fills the other half while the reader comes back from its work must not cost it a second gap.
func (p Policy) Bound(span int) int {
	half := max(1, span/2)
	if p.Behind <= 0 {
		return half
	}
	return min(p.Behind, half)
}

// Act is the treatment of a cursor that is behind.
type Act uint8

const (
	Read Act = iota // as if nothing were
	Jump            // to the newest packet
	End             // the subscription
)

// Act decides about a cursor that is lag packets behind, bound of them being allowed.
// overtaken says that the window was full and it has lost packets already.
func (p Policy) Act(lag, bound int, overtaken bool) Act {
	switch late := lag > bound || overtaken; {
	case late && p.Kind == Latest:
		return Jump
	case late && p.Kind == Evict:
		return End
	}
	return Read
}

// Lateness records since when a cursor is behind: by more than half of its bound.
type Lateness struct{ since time.Duration }

// Record records that the cursor is lag packets behind at now, with bound allowed. It returns for how long it has
// been behind. now is never zero.
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
