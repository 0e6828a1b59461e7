package engine

import (
	"iter"
	"time"

	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/reliable"
)

// Subscriptions that begin with what publishers still hold, or with their state. Each has a receiver of its own in its
// groups, which fetches that. So it neither delays other subscriptions nor changes the order of their messages.

// From says where a subscription begins. The zero value begins with what is published from now on.
type From struct {
	State     bool       // with the state that publishers keep
	Window    bool       // with what is in publishers' windows
	Positions *Positions // of the window, only from these messages of each topic on; docs/protocol §9.8
}

// ownership distinguishes groups of one index.
type ownership struct {
	owner    *Subscription // the only subscription of the group; nil: shared
	from     From          // where streams of the group begin
	expected expected
}

// groupList has the groups that a loop receives. Loop only.
type groupList struct {
	groups     []*group            // by index, the first of each; nil: not subscribed
	receiving  []*group            // all of them
	left       []*group            // by index: groups that were subscribed and left
	joins      joins               // memberships of the transport
	surveys    []*Survey           // active ones
	endedOwned map[int]stats.Group // by index: counters of groups with a closed owner
}

func newGroupList(groups int) groupList {
	return groupList{groups: make([]*group, groups), left: make([]*group, groups), joins: make(joins, groups),
		endedOwned: make(map[int]stats.Group)}
}

// counted yields the groups with counters that continue: received ones, and shared ones that were left.
func (x *groupList) counted() iter.Seq[*group] {
	return func(yield func(*group) bool) {
		for _, g := range x.receiving {
			if !yield(g) {
				return
			}
		}
		for _, g := range x.left {
			if g != nil && !yield(g) {
				return
			}
		}
	}
}

// owner returns the owner of the subscription's groups; nil: they are shared.
func (s *Subscription) owner() *Subscription {
	if s.from.Window || s.from.State {
		return s
	}
	return nil
}

// group returns the subscription's group of that index, or nil. Loop only.
func (s *Subscription) group(index int) *group { return s.l.find(index, s.owner()) }

// find returns the group of that index and owner, or nil.
func (l *Loop) find(index int, owner *Subscription) *group {
	g := l.groups[index]
	for g != nil && g.owner != owner {
		g = g.next
	}
	return g
}

// config returns the configuration of the group's receiver.
func (g *group) config() reliable.ReceiverConfig {
	c := g.l.cfg.Receiver
	c.GroupTag, c.LegTags = wire.GroupTag(g.address), g.l.inbox.legs.tags(g.index)
	if g.owner != nil { // for publishers it is another receiver
		c.ID = c.Rand.Uint64() | 1
		c.FromWindow, c.Joins = g.from.Window, g.from.State
		c.Loans = nil // a packet is lent to one receiver only
		// As large as the publisher's window, with room for packets that arrive while that is fetched.
		c.WindowBytes, c.MemoryBytes = 2*c.WindowBytes, 2*c.MemoryBytes
		if g.from.State { // with room for packets that arrive while state is fetched
			c.WindowBytes = max(c.WindowBytes, c.MemoryBytes/4)
		}
	}
	return c
}

// begin makes a reader begin the topic where the group's subscription begins.
func (g *group) begin(st *reliable.Stream, rd *topics.Reader, t *groupTopic) {
	if t.live {
		rd.WithoutState(t.id)
	} else if g.numbered(st) {
		rd.From(t.id, g.from.Positions.next(st.Instance, t.id))
	}
}

// numbered reports whether Positions say with which message the stream's topics begin.
func (g *group) numbered(st *reliable.Stream) bool {
	return g.from.Positions != nil && !st.Continued() &&
		(st.Begun() || g.from.Positions.of[st.Instance] != nil)
}

// beginLive makes topics that are added to a group begin with what is published from now on. State is requested only
// once, when the group begins: a later packet may lack theirs.
func (g *group) beginLive(topics []*groupTopic) {
	for _, t := range topics {
		t.live = true
		for _, st := range g.r.Streams() {
			if in := outputOf(st).handlers; in != nil {
				in.rd.WithoutState(t.id)
			}
		}
	}
}

// alone reports whether no other group of that index has the stream up. Then this group reports it.
func (g *group) alone(of events.Instance) bool {
	for x := g.l.groups[g.index]; x != nil; x = x.next {
		if to, ok := x.r.Recipient(of); x != g && ok && !to.Down {
			return false
		}
	}
	return true
}

// farewellTime is how long a group stays after its owner has closed, to send farewells to publishers. docs/protocol
// §7.7.
const farewellTime = 20 * time.Millisecond

// speaks reports whether this group, the first of those that have a stream, reports it. The stream may be down in one
// before it is in the next.
func (g *group) speaks(of events.Instance) bool {
	for x := g.l.groups[g.index]; x != nil; x = x.next {
		if _, ok := x.r.Recipient(of); ok {
			return x == g
		}
	}
	return true
}

// keepUnused returns how long the group is kept without a subscription.
func (g *group) keepUnused() time.Duration {
	if g.owner != nil {
		return farewellTime
	}
	return leaveAfter
}

// end removes the group from those that the loop receives. Its counters are kept.
func (g *group) end() {
	l := g.l
	at := &l.groups[g.index]
	for *at != g {
		at = &(*at).next
	}
	*at, g.next = g.next, nil
	l.receiving = dropped(l.receiving, g)
	if g.owner == nil {
		l.left[g.index] = g
		return
	}
	l.counters.network.before += g.r.Dropped()
	for i, s := range g.r.LegStats() {
		addLeg(&l.inbox.legs.before[i], &s)
	}
	st := l.endedOwned[g.index]
	addGroup(&st, g)
	l.endedOwned[g.index] = st
}
