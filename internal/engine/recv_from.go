package engine

import (
	"iter"
	"time"

	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/reliable"
)

// Subscriptions that begin with what publishers still hold, or with the state that they keep. Each has a receiver
// of its own in its groups, which fetches that: so neither the order of its messages nor the waiting for them is
// any other subscription's.

// From says where a subscription begins. The zero value is what is published from now on.
type From struct {
	State     bool       // with the state that publishers keep
	Window    bool       // with what publishers' windows hold
	Positions *Positions // there with these messages of each topic; docs/protocol §9.8
}

// ownership distinguishes groups of one index.
type ownership struct {
	owner    *Subscription // the only subscription of the group, or nil
	from     From          // where its streams begin
	expected expected
}

// groupList are the groups that a loop receives. Loop only.
type groupList struct {
	groups    []*group            // by group index, the first of each; nil: not subscribed
	receiving []*group            // all of them
	left      []*group            // by group index: subscribed before, and left
	joins     joins               // what of that the fabric brings
	surveys   []*Survey           // that listen
	former    map[int]stats.Group // by group index: counts of groups that no subscription owns any more
}

func newGroupList(groups int) groupList {
	return groupList{groups: make([]*group, groups), left: make([]*group, groups), joins: make(joins, groups),
		former: make(map[int]stats.Group)}
}

// counted yields the groups with counters that continue: those that are received, and those that were left.
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

// owner returns the owner of the subscription's groups.
func (s *Subscription) owner() *Subscription {
	if s.from.Window || s.from.State {
		return s
	}
	return nil
}

// group is the subscription's group of that index, or nil. Loop only.
func (s *Subscription) group(index int) *group { return s.l.find(index, s.owner()) }

// find is the group of that index and owner, or nil.
func (l *Loop) find(index int, owner *Subscription) *group {
	g := l.groups[index]
	for g != nil && g.owner != owner {
		g = g.next
	}
	return g
}

// config is how the group's receiver is configured.
func (g *group) config() reliable.ReceiverConfig {
	c := g.l.cfg.Receiver
	c.GroupTag, c.LegTags = wire.GroupTag(g.address), g.l.inbox.legs.tags(g.index)
	if g.owner != nil { // to publishers it is a receiver like any other
		c.ID = c.Rand.Uint64() | 1
		c.FromWindow, c.FromState = g.from.Window, g.from.State
		if p := g.from.Positions; p != nil {
			c.Wanted = p.next
		}
		c.Loans = nil // they are for one receiver of a packet
		// A window as large as the publisher's, with room for packets that arrive while that is fetched.
		c.WindowBytes, c.MemoryBytes = 2*c.WindowBytes, 2*c.MemoryBytes
		if g.from.State { // with room for all that comes while the state does
			c.WindowBytes = max(c.WindowBytes, c.MemoryBytes/4)
		}
	}
	return c
}

// begin makes a reader begin the topic where the group's subscription wants it to.
func (g *group) begin(st *reliable.Stream, rd *topics.Reader, t *groupTopic) {
	if t.live {
		rd.WithoutState(t.id)
	} else if g.numbered(st) {
		rd.From(t.id, g.from.Positions.next(st.Publisher, st.Epoch, t.id))
	}
}

// numbered reports whether topics of the stream begin with certain messages.
func (g *group) numbered(st *reliable.Stream) bool {
	return g.from.Positions != nil && !st.Continued() &&
		(st.Begun() || g.from.Positions.of[st.Instance] != nil)
}

// beginLive makes topics that are added to a group begin with what is published from now on.
// State is requested once, when the group begins: a later packet may lack theirs.
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

// askTotals asks how far the topics of a stream that has just come up are, where they
// begin with a certain message: that may be gone, and nothing follow it.
func (g *group) askTotals(st *reliable.Stream) {
	if g.numbered(st) {
		_ = g.l.post(st.WantTotals) // it fails only where the loop has ended
	}
}

// alone reports whether no other group of that index has the stream up: then this one reports it.
func (g *group) alone(of reliable.Instance) bool {
	for x := g.l.groups[g.index]; x != nil; x = x.next {
		if x != g && x.r.Up(of) {
			return false
		}
	}
	return true
}

// farewellTime is how long a group without an owner stays, for its farewells to publishers. docs/protocol §7.7.
const farewellTime = 20 * time.Millisecond

// speaks reports whether this group reports a stream that is up in several.
func (g *group) speaks(of reliable.Instance) bool {
	for x := g.l.groups[g.index]; x != nil; x = x.next {
		if x.r.Up(of) {
			return x == g
		}
	}
	return true
}

// keepUnused is how long the group is kept without a subscription.
func (g *group) keepUnused() time.Duration {
	if g.owner != nil {
		return farewellTime
	}
	return leaveAfter
}

// end takes the group from those that the loop receives. What is counted stays.
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
	l.counters.way.before += g.r.Dropped()
	for i, s := range g.r.LegStats() {
		addLeg(&l.inbox.legs.before[i], &s)
	}
	st := l.former[g.index]
	addGroup(&st, g)
	l.former[g.index] = st
}
