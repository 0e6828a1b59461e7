package reliable

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// stall tracks which members block the publisher, and since when, and releases them. docs/protocol §8.6, §8.7.
//
// A member that flow control waits for blocks the publisher while the next packet is at or beyond the member's limit,
// or would push a packet out of the window that the member misses. This ends with the status that admits a packet.
type stall struct {
	limit time.Duration // how long a member may block the publisher before it is released; 0: unlimited
	flow  FlowControl
	on    bool    // a member blocked the publisher at the last call of updateStall
	turn  int     // counts the members that heartbeats name
	next  *Member // named in the next heartbeat, before others
}

// waits reports whether flow control waits for m.
func (x *stall) waits(m *Member) bool { return m.counts() && x.flow.Counts(m) }

// look updates which members block the publisher. held: flow control holds it up at packet at. window is the size of
// the window in packets.
func (x *stall) look(now upTime, list []*Member, held bool, at, window uint64) {
	if !held && !x.on {
		return
	}
	x.on = false
	for _, m := range list {
		if !held || !x.waits(m) || m.Limit > at && (at < window || at-window < m.Next) {
			m.follows()
			continue
		}
		m.holds(now)
		x.on = true
	}
}

// holder returns the member that has blocked the publisher for longest, or nil.
func (x *stall) holder(list []*Member) *Member {
	var h *Member
	for _, m := range list {
		if m.isHolding() && (h == nil || m.since < h.since) {
			h = m
		}
	}
	return h
}

// release releases the members that have blocked the publisher for too long, and returns them. docs/protocol §8.7.
func (x *stall) release(now upTime, list []*Member) (gone []*Member) {
	for _, m := range list {
		if x.on && x.limit > 0 && m.isHolding() && m.heldFor(now) >= x.limit {
			m.release(now)
			gone = append(gone, m)
		}
	}
	return gone
}

// caughtUp reports whether m, if it is released, may count again: it has room, and the publisher still has all that it
// misses.
func (m *Member) caughtUp(trail, lead uint64) bool { return m.Next >= trail && m.Limit > lead }

// toName returns the member to name in the next heartbeat, or nil. That is next if it is set, otherwise the holder.
// Every second time, and whenever there is no holder, it is a released member, in turn. docs/protocol §5.5, §8.7,
// §8.12.
func (x *stall) toName(list []*Member) *Member {
	m := x.next
	if x.next = nil; m != nil && m.away() {
		return m
	}
	h := x.holder(list)
	x.turn++
	n := x.turn
	if h != nil {
		n /= 2
	}
	if h == nil || x.turn%2 == 1 {
		away := 0
		for _, m := range list {
			if m.away() {
				away++
			}
		}
		for _, m := range list {
			if !m.away() {
				continue
			}
			if n%away == 0 {
				return m
			}
			n++
		}
	}
	return h
}

func (m *Member) hold(d time.Duration, lead uint64) events.Hold {
	return events.Hold{Subscriber: events.ID(m.ID), Name: m.Name, Address: m.Address, For: d, Behind: m.behind(lead)}
}

// behind is how many packets m has not received or not read.
func (m *Member) behind(lead uint64) uint64 { return lead - min(lead, m.Next) + uint64(m.unread) }

// heldAt returns the packet at which flow control blocks the publisher, if it does.
func (s *Sender) heldAt() (at uint64, held bool) {
	switch {
	case s.flow.held: // packets assigned before a member joined
		return s.win.sent, true
	case s.blocked == events.ReasonFlow:
		return s.win.next, true
	}
	return 0, false
}

// updateStall updates the stall state. It is called after statuses, and with heartbeats, which a publisher that is
// blocked sends on the ladder. While the transport takes nothing no member is at fault.
func (s *Sender) updateStall(now Instant) {
	s.relieve()
	at, held := s.heldAt()
	held = held && !s.out.down(now)
	window := s.win.span()
	if s.blocks.short {
		window = s.win.next - s.blocks.oldest
	}
	s.stall.look(s.up(now), s.members.list, held, at, window)
}

// releaseHolders releases the members that block the publisher for too long or are too slow.
func (s *Sender) releaseHolders(now Instant) {
	s.updateStall(now)
	gone := append(s.slowMembers(now), s.stall.release(s.up(now), s.members.list)...)
	if gone == nil {
		return
	}
	for _, m := range gone {
		kind := events.SubscriberReleased
		if m.membership.slow {
			kind = events.SlowSubscriber
		}
		s.emit(kind, m, m.heldFor(s.up(now)))
	}
	s.stats.ReceiversReleased += uint64(len(gone))
	s.flow.recompute(s.cfg.Flow, s.members.list)
	s.relieve() // released members keep no packet in the window
}

// Holder returns the member that has blocked the publisher for longest by flow control, if there is one.
func (s *Sender) Holder(now Instant) (h events.Hold, ok bool) {
	if _, held := s.heldAt(); !held {
		return events.Hold{}, false
	}
	m := s.stall.holder(s.members.list)
	if m == nil {
		return events.Hold{}, false
	}
	h = m.hold(m.heldFor(s.up(now)), s.win.next)
	if d := m.unanswered(s.up(now)); d >= 3*slowHeartbeat { // a running, connected member answers at once
		h.Unanswered = d
	}
	return h, true
}

// Members returns the members known to want a topic; topic 0: all members.
func (s *Sender) Members(now Instant, topic uint64) []stats.Subscriber {
	var all []stats.Subscriber
	up := s.up(now)
	for _, m := range s.members.list {
		if !m.knownToWant(&s.members.questions, topic) {
			continue
		}
		all = append(all, stats.Subscriber{
			ID: events.ID(m.ID), Name: m.Name, Address: m.Address, Tag: m.Tag,
			Behind: m.behind(s.win.next), Room: m.Limit - min(m.Limit, s.win.next),
			LastHeard: up.sub(m.heard), Unanswered: m.unanswered(up), Holds: m.isHolding(),
			Released: m.away(), HeldFor: m.heldFor(up), Joining: m.joining,
		})
	}
	return all
}

// addressEvery is the minimum interval between updates of a member's address, which may change with its interface.
const addressEvery = time.Second

// introduce takes a member's name and address from a status. address returns the text of the source; it may be nil.
func (m *Member) introduce(now Instant, st *wire.Status, address func() string) {
	if len(st.Name) > 0 && string(st.Name) != m.wireName {
		m.wireName, m.Name = string(st.Name), wire.CleanName(st.Name)
	}
	if address != nil && (m.addressAt == 0 || now.Sub(m.addressAt) >= addressEvery) {
		m.Address, m.addressAt = address(), now
	}
}
