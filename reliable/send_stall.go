package reliable

import (
	"errors"
	"fmt"
	"slices"
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

// ErrUnreached is the fault of a member that answers, and misses more packets than its readers have not read.
var ErrUnreached = errors.New("it answers, but packets do not reach it (fanfare loss there; if only full ones are missing, MTUs differ)")

// fault is why m is behind, unless its readers are slow. Packets beyond its limit were not sent to it.
func (m *Member) fault(now upTime, lead uint64) error {
	if d := m.unanswered(now); d >= 3*slowHeartbeat { // a running, connected member answers at once
		return fmt.Errorf("it has not answered for %v", d.Round(time.Millisecond))
	}
	if sent := min(lead, m.Limit); sent > m.Next+uint64(m.unread) {
		return ErrUnreached
	}
	return nil
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
		s.emit(kind, m, m.heldFor(s.up(now)), m.fault(s.up(now), s.win.next))
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
	h.Fault = m.fault(s.up(now), s.win.next)
	return h, true
}

// Members returns the members.
func (s *Sender) Members(now Instant) []stats.Subscriber {
	var all []stats.Subscriber
	up := s.up(now)
	for _, m := range s.members.list {
		all = append(all, stats.Subscriber{
			ID: events.ID(m.ID), Name: m.Name, Address: m.Address, Tag: m.Tag,
			Behind: m.behind(s.win.next), Room: m.Limit - min(m.Limit, s.win.next),
			LastHeard: up.sub(m.heard), Unanswered: m.unanswered(up), Holds: m.isHolding(),
			Released: m.away(), HeldFor: m.heldFor(up), Joining: m.Joining, Unreached: m.fault(up, s.win.next) == ErrUnreached,
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

// SlowLimit says how far, and for how long, a member may stay behind before it is released, until it is at most half as
// far behind. A member that blocks the publisher for that long is released, too, since windows may be smaller than
// the limit. With Behind 0 there is no limit. docs/protocol §8.9.
type SlowLimit struct {
	Behind uint64        // packets that it has not received or not read
	For    time.Duration // how long it may be further behind without interruption
}

// lagging tracks since when a member has been behind by more than the limit.
type lagging struct{ since upTime } // 0: it is not

// note updates x with how far behind the member is now, and how long it has blocked the publisher. It reports whether
// the member has been too far behind for too long, and for how long. A member that blocks the publisher is as far
// behind as possible, however few packets that is.
func (x *lagging) note(now upTime, behind uint64, held time.Duration, limit SlowLimit) (d time.Duration, tooLong bool) {
	switch {
	case limit.Behind == 0 || behind <= limit.Behind:
		x.since = 0
	case x.since == 0:
		x.since = now
	}
	if x.since != 0 {
		d = now.sub(x.since)
	}
	if d = max(d, held); limit.Behind == 0 || x.since == 0 && held == 0 {
		return 0, false
	}
	return d, d >= limit.For
}

// back reports whether a member that was released as slow is close enough to count again.
func (l SlowLimit) back(behind uint64) bool { return behind <= l.Behind/2 }

// slowMembers releases members that have been too far behind for too long, while the transport took packets.
func (s *Sender) slowMembers(at Instant) (gone []*Member) {
	if s.cfg.Slow.Behind == 0 {
		return nil
	}
	now, down := s.up(at), s.out.down(at)
	for _, m := range s.members.list {
		if !s.stall.waits(m) {
			continue
		}
		held := time.Duration(0)
		if m.isHolding() { // not while packets for which it has room are still being sent
			held = min(m.heldFor(now), now.sub(s.up(s.heartbeat.lastData)))
		}
		d, tooLong := m.lagging.note(now, m.behind(s.win.next), held, s.cfg.Slow)
		if tooLong || down {
			m.lagging = lagging{}
		}
		if tooLong && !down {
			m.tooSlow(d)
			gone = append(gone, m)
		}
	}
	return gone
}

// formerlyReleased holds members that were released and then fell silent, such as stopped processes. They do not count,
// but heartbeats name them for a while, so that a receiver that returns knows the cause of its gap. docs/protocol
// §8.12.
type formerlyReleased struct{ list []*Member } // the oldest first

// remember adds a member that is removed as silent, if it was released.
func (x *formerlyReleased) remember(m *Member) {
	if !m.away() {
		return
	}
	if len(x.list) >= formerKept {
		x.list = slices.Delete(x.list, 0, 1)
	}
	x.list = append(x.list, m)
}

// find returns the former member with that id, or nil.
func (x *formerlyReleased) find(id uint64) *Member {
	for _, m := range x.list {
		if m.ID == id {
			return m
		}
	}
	return nil
}

// comesBack makes a former member that returns a released one again.
func (x *formerlyReleased) comesBack(m *Member) {
	if old := x.find(m.ID); old != nil {
		m.membership = old.membership
		x.list = slices.DeleteFunc(x.list, func(m *Member) bool { return m == old })
	}
}

// forget drops the members that have been silent for too long.
func (x *formerlyReleased) forget(now upTime) {
	x.list = slices.DeleteFunc(x.list, func(m *Member) bool { return now.sub(m.asked.since) >= formerNamed })
}

// toBeNamed returns the members that a heartbeat may have to name.
func (m *members) toBeNamed() []*Member {
	if len(m.former.list) == 0 {
		return m.list
	}
	return slices.Concat(m.list, m.former.list)
}

// explainGone makes a heartbeat name a released receiver that requests packets which are gone, before the gone is sent:
// so the receiver reports the right cause of the gap.
func (s *Sender) explainGone(now Instant, receiver uint64) {
	m := s.members.byID[receiver]
	if m == nil {
		m = s.members.former.find(receiver)
	}
	if m != nil && m.away() && (m.namedAt == 0 || now.Sub(m.namedAt) >= slowHeartbeat) {
		s.stall.next = m
		s.heartbeat.by(now)
	}
}

// Trailing is a member that requests more repairs than the budget beside the data allows: its link or host cannot
// sustain the data rate.
type Trailing struct {
	events.Hold
	Received float64 // packets a second that arrived
	Sent     float64 // new packets a second
}

// trailing searches for such a member once per trailingEvery.
type trailing struct {
	since upTime
	sent  uint64 // Sender.win.sent at since
	short bool   // repairs waited for their budget
	found *Trailing
}

const (
	trailingEvery = time.Second
	trailingShare = 8 // it requests one packet of so many at least, and lacks as many
)

// memberPath is what a publisher knows of the path to a member.
type memberPath struct {
	rtt   rttEstimator
	known bool   // it was a member at trailing.since
	asked int    // packets requested since trailing.since
	end   uint64 // highest sequence requested, plus one
	next  uint64
	lost  uint32

	fetched uint64 // lowest sequence of history requested, plus one; 0: none
}

// endPeriod ends the period if it is over. A member that joined within it, or lacks few packets at its end, is catching
// up.
func (x *trailing) endPeriod(list []*Member, w *sendWindow, now upTime) {
	d := now.sub(x.since)
	if d < trailingEvery {
		return
	}
	sent := w.sent - x.sent
	var last *Member
	for _, m := range list {
		if !m.Joining && m.path.known && m.path.asked > 0 && (last == nil || m.path.asked > last.path.asked) {
			last = m
		}
	}
	x.found = nil
	if x.short && sent > 0 && last != nil && uint64(last.path.asked) > sent/trailingShare {
		got := last.Next - min(last.Next, last.path.next+uint64(last.Lost-last.path.lost))
		if max(sent-min(sent, got), last.behind(w.next)) > sent/trailingShare {
			x.found = &Trailing{last.hold(d, w.next), float64(got) / d.Seconds(), float64(sent) / d.Seconds()}
		}
	}
	for _, m := range list {
		m.path.known, m.path.asked, m.path.next, m.path.lost = true, 0, m.Next, m.Lost
	}
	*x = trailing{since: now, sent: w.sent, found: x.found}
}

// TakeTrailing returns, once per period, the member that requested most in the last period, if its requests exceeded
// the budget.
func (s *Sender) TakeTrailing(now Instant) (t Trailing, ok bool) {
	x := &s.members.trailing
	x.endPeriod(s.members.list, &s.win, s.up(now))
	if x.found == nil {
		return Trailing{}, false
	}
	t, x.found = *x.found, nil
	return t, true
}
