package reliable

import (
	"fmt"
	"slices"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// FlowControl decides how far a publisher may run ahead of its subscribers: of n members
// that count, Need of them must have room for a packet before it is sent, and no packet
// leaves the window that fewer than Need of them have. docs/protocol §8.1.
//
//	            counts       needs                         delivered to
//	MinFlow     all          all of them                   those that count
//	MaxFlow     all          one                           those that count
//	QuorumFlow  all          N, or all if they are fewer   those that count
//	NoFlow      none                                       all
//	TaggedFlow  with a tag   as its Of                     those that count
type FlowControl interface {
	// Counts reports whether m is one of those that the publisher may wait for.
	Counts(m *Member) bool
	// Delivers reports whether m is one of the members that count for Need: a packet is delivered when they have it.
	Delivers(m *Member) bool
	// Need is how many of n members that count the publisher waits for: from 1 to n if n is not 0.
	Need(n int) int
	// String is what the strategy is called in configuration.
	String() string
}

// MinFlow waits for every subscriber: the publisher never outruns the window
// of the slowest one that is present. With no subscriber it runs free.
type MinFlow struct{}

// Counts reports that every member counts.
func (MinFlow) Counts(*Member) bool { return true }

// Delivers reports that every member does.
func (MinFlow) Delivers(*Member) bool { return true }

// Need is all of them.
func (MinFlow) Need(n int) int { return n }

func (MinFlow) String() string { return "min" }

// NoFlow waits for no subscriber: one that is too slow, or away for longer than the window lasts, has gaps. Limit the
// rate to what all can take.
type NoFlow struct{}

// Counts reports that no member counts.
func (NoFlow) Counts(*Member) bool { return false }

// Delivers reports that every member does: they are not waited for, but a caller may still ask what has reached them.
func (NoFlow) Delivers(*Member) bool { return true }

// Need is all of them.
func (NoFlow) Need(n int) int { return n }

func (NoFlow) String() string { return "none" }

// MaxFlow waits for the fastest subscriber alone.
type MaxFlow struct{}

// Counts reports that every member counts.
func (MaxFlow) Counts(*Member) bool { return true }

// Delivers reports that every member does.
func (MaxFlow) Delivers(*Member) bool { return true }

// Need is one.
func (MaxFlow) Need(n int) int { return min(n, 1) }

func (MaxFlow) String() string { return "max" }

// QuorumFlow waits for the N fastest subscribers, or for all where there are fewer.
type QuorumFlow struct{ N int }

// Counts reports that every member counts.
func (QuorumFlow) Counts(*Member) bool { return true }

// Delivers reports that every member does.
func (QuorumFlow) Delivers(*Member) bool { return true }

// Need is N, or all of them.
func (q QuorumFlow) Need(n int) int { return min(n, q.N) }

func (q QuorumFlow) String() string { return fmt.Sprintf("quorum:%d", q.N) }

// TaggedFlow is Of among the subscribers that carry the tag. Others are served, and not waited for.
type TaggedFlow struct {
	Tag string
	Of  FlowControl
}

// Counts reports whether m carries the tag and counts for Of.
func (t TaggedFlow) Counts(m *Member) bool { return m.Tag == t.Tag && t.Of.Counts(m) }

// Delivers reports whether m carries the tag.
func (t TaggedFlow) Delivers(m *Member) bool { return m.Tag == t.Tag && t.Of.Delivers(m) }

// Need is that of Of.
func (t TaggedFlow) Need(n int) int { return t.Of.Need(n) }

func (t TaggedFlow) String() string { return t.Of.String() + ",tag:" + t.Tag }

// flowState is what the members add up to.
type flowState struct {
	limit uint64 // first sequence that may not be assigned
	floor uint64 // lowest sequence that a subscriber that is waited for misses
	free  bool   // there are members, and the publisher waits for none by its strategy
	held  bool   // what has its sequence waits

	ranks []uint64 // to find the member that decides
}

const noLimit = 1 << 63

// recompute is called whenever a member has come, changed or gone.
func (f *flowState) recompute(flow FlowControl, list []*Member) {
	f.limit = f.frontier(flow, list, noLimit, flow.Counts, func(m *Member) uint64 { return m.Limit })
	f.floor = f.frontier(flow, list, noLimit, flow.Counts, func(m *Member) uint64 { return m.Next })
	f.free = len(list) > 0 && !slices.ContainsFunc(list, flow.Counts)
}

// frontier is the highest value that as many of the members that count have reached as flow
// control needs: none if no member counts.
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

// admit asks flow control, the window and the rate limit for packets of so many bytes each. It returns how many of
// them, from the first on, may have their sequences; if none, what the first one waits for. docs/protocol §8.1.
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
