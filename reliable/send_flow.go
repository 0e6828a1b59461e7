package reliable

import (
	"fmt"
	"slices"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// FlowControl decides how far a publisher may run ahead of its members. Of n members that count, Need must have room
// for a packet before it is sent, and a packet stays in the window until Need of them have it. docs/protocol §8.1.
//
//	            counts       needs                         delivered to
//	MinFlow     all          all of them                   those that count
//	MaxFlow     all          one                           those that count
//	QuorumFlow  all          N, or all if they are fewer   those that count
//	NoFlow      none                                       all
//	TaggedFlow  with a tag   as its Of                     those that count
type FlowControl interface {
	// Counts reports whether the publisher may wait for m.
	Counts(m *Member) bool
	// Delivers reports whether a delivery to m counts: a packet is delivered when Need of these members have it.
	Delivers(m *Member) bool
	// Need is how many of n counting members the publisher waits for: from 1 to n, or 0 if n is 0.
	Need(n int) int
	// String is the name of the strategy in configurations.
	String() string
}

// MinFlow waits for every member: the publisher never outruns the window of the slowest one. Without members it does
// not wait.
type MinFlow struct{}

// Counts returns true.
func (MinFlow) Counts(*Member) bool { return true }

// Delivers returns true.
func (MinFlow) Delivers(*Member) bool { return true }

// Need returns n.
func (MinFlow) Need(n int) int { return n }

func (MinFlow) String() string { return "min" }

// NoFlow waits for no member: one that is too slow, or away for longer than the window lasts, has gaps. Set a rate
// limit that all receivers can sustain.
type NoFlow struct{}

// Counts returns false.
func (NoFlow) Counts(*Member) bool { return false }

// Delivers returns true: the publisher waits for no member, but callers may ask what has reached all of them.
func (NoFlow) Delivers(*Member) bool { return true }

// Need returns n.
func (NoFlow) Need(n int) int { return n }

func (NoFlow) String() string { return "none" }

// MaxFlow waits for the fastest member only.
type MaxFlow struct{}

// Counts returns true.
func (MaxFlow) Counts(*Member) bool { return true }

// Delivers returns true.
func (MaxFlow) Delivers(*Member) bool { return true }

// Need returns 1, or 0 without members.
func (MaxFlow) Need(n int) int { return min(n, 1) }

func (MaxFlow) String() string { return "max" }

// QuorumFlow waits for the N fastest members, or for all if there are fewer.
type QuorumFlow struct{ N int }

// Counts returns true.
func (QuorumFlow) Counts(*Member) bool { return true }

// Delivers returns true.
func (QuorumFlow) Delivers(*Member) bool { return true }

// Need returns the smaller of n and N.
func (q QuorumFlow) Need(n int) int { return min(n, q.N) }

func (q QuorumFlow) String() string { return fmt.Sprintf("quorum:%d", q.N) }

// TaggedFlow applies Of to the members that carry the tag. Others are served, but not waited for.
type TaggedFlow struct {
	Tag string
	Of  FlowControl
}

// Counts reports whether m carries the tag and counts for Of.
func (t TaggedFlow) Counts(m *Member) bool { return m.Tag == t.Tag && t.Of.Counts(m) }

// Delivers reports whether m carries the tag and counts for Of's Delivers.
func (t TaggedFlow) Delivers(m *Member) bool { return m.Tag == t.Tag && t.Of.Delivers(m) }

// Need is that of Of.
func (t TaggedFlow) Need(n int) int { return t.Of.Need(n) }

func (t TaggedFlow) String() string { return t.Of.String() + ",tag:" + t.Tag }

// flowState is the combined state of the members.
type flowState struct {
	limit uint64 // first sequence that may not be assigned
	floor uint64 // lowest sequence that a member waited for misses
	free  bool   // there are members, but flow control waits for none of them
	held  bool   // assigned packets wait for room at members

	ranks []uint64 // scratch of frontier
}

const noLimit = 1 << 63

// recompute updates f. Call it when a member was added, changed or removed.
func (f *flowState) recompute(flow FlowControl, list []*Member) {
	f.limit = f.frontier(flow, list, noLimit, flow.Counts, func(m *Member) uint64 { return m.Limit })
	f.floor = f.frontier(flow, list, noLimit, flow.Counts, func(m *Member) uint64 { return m.Next })
	f.free = len(list) > 0 && !slices.ContainsFunc(list, flow.Counts)
}

// frontier is the highest value that as many counting members as flow control needs have reached; none if no member
// counts.
func (f *flowState) frontier(flow FlowControl, list []*Member, none uint64, counts func(*Member) bool,
	value func(*Member) uint64) uint64 {
	f.ranks = f.ranks[:0]
	for _, m := range list {
		if m.counts() && counts(m) {
			f.ranks = append(f.ranks, value(m))
		}
	}
	n := len(f.ranks)
	switch need := flow.Need(n); {
	case n == 0:
		return none
	case need == n:
		return slices.Min(f.ranks)
	default:
		slices.Sort(f.ranks)
		return f.ranks[n-need]
	}
}

// admit returns how many of the packets with sizes lens, from the first on, flow control, the window and the rate limit
// admit. If it is none, it returns the reason. docs/protocol §8.1.
func (s *Sender) admit(now Instant, lens []uint16) (int, events.Reason) {
	n, why := s.win.admits(s.flow.limit, s.flow.floor)
	if n == 0 {
		return 0, why
	}
	if n < uint64(len(lens)) {
		lens = lens[:n]
	}
	if taken := s.limiter.takeRow(now, lens); taken > 0 {
		return taken, events.ReasonNone
	}
	return 0, events.ReasonRate
}

// Room is how many full packets flow control and the window admit now.
func (s *Sender) Room() uint64 {
	return s.win.room(s.flow.limit, s.flow.floor, uint64(nextPow2(s.Blocks()*s.blocks.perBlock)))
}

// Delivered is the sequence below which all packets have arrived at every member that is not released, or at as many of
// the counting members as flow control needs.
func (s *Sender) Delivered() uint64 {
	next := func(m *Member) uint64 { return m.Next }
	return s.flow.frontier(s.cfg.Flow, s.members.list, s.win.sent, s.cfg.Flow.Delivers, next)
}

// settled reports whether as many members as in Delivered have everything and ask the message layer nothing.
func (s *Sender) settled() bool {
	done := func(m *Member) uint64 {
		if s.control.Asks(m) {
			return 0
		}
		return m.Next
	}
	flow := s.cfg.Flow
	return s.win.sent == s.win.next &&
		s.flow.frontier(flow, s.members.list, s.win.next, flow.Delivers, done) >= s.win.next
}
