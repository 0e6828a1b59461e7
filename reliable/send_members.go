package reliable

import (
	"errors"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Member is what a publisher knows of one receiver.
type Member struct {
	ID    uint64
	Next  uint64 // lowest sequence that it misses
	Limit uint64 // first sequence for which it has no room
	Lost  uint32 // packets that it has given up
	// Joining: it fetches history or waits for state.
	Joining bool
	// Name is its name, fit to be shown, and Address its source, as far as they are known.
	Name    string
	Address string
	// Tag is its tag, fit to be shown; empty: none, or not stated yet.
	Tag string

	membership
	lagging lagging
	path    memberPath

	wireName  string
	addressAt Instant // when Address was determined
	unread    uint32  // packets that its readers have not read
	// lostCounted is the part of Lost that Stats counts.
	lostCounted uint32
	fetches     bool // it fetches history

	queue   uint8 // queue of the repairs that it requests
	heard   upTime
	last    statusOrder // order of its newest status
	lastAt  upTime      // when that status first arrived
	asked   solicited   // since the last sign of life
	namedAt Instant     // when a heartbeat last named it
}

// solicited is how often a member was asked for a sign of life, and since when. Lost replies reset times.
type solicited struct {
	times int
	since upTime
}

// members holds the publisher's members.
type members struct {
	byID map[uint64]*Member
	list []*Member
	max  int
	// queued counts the members of each repair queue.
	queued   [repairQueues]int
	gone     tombstones[uint64, statusOrder]
	former   formerlyReleased
	trailing trailing
	events   []events.Event // not yet taken by the owner, maxEvents at most
	read     Instant        // all replies that arrived before have been handled
	askedAt  upTime         // when all members were last asked
	unsent   bool           // a later control packet was not sent: the time to the next question does not count
}

func (m *members) init(limit int) {
	m.byID = make(map[uint64]*Member)
	m.max, m.gone, m.read = limit, formerMembers(), Never
}

// asks records a NAK, which is a sign of life, and returns the member that sent it, or nil.
func (m *members) asks(now upTime, id uint64) *Member {
	x := m.byID[id]
	if x != nil {
		x.alive(now)
	}
	return x
}

// full reports whether no further member is admitted: then a non-member may be a regular subscriber.
func (m *members) full() bool { return len(m.list) >= m.max }

// counts reports whether flow control may wait for x. A member that fetches history does so as fast as others leave
// room, and does not block the publisher. docs/protocol §8.10.
func (x *Member) counts() bool { return x.waitedFor() && !x.Joining }

// alive records a sign of life, unless the last new status is too old.
func (x *Member) alive(now upTime) {
	if now.sub(x.lastAt) < repeatedLife {
		x.heard, x.asked = now, solicited{}
	}
}

// mayJoin reports whether a status may make its receiver a member: after the receiver left or was removed, only a newer
// status may.
func (m *members) mayJoin(id uint64, x statusOrder) bool {
	last, ok := m.gone.find(id)
	return !ok || x.supersedes(last)
}

// add adds member x. It shares its repair queue with as few members as possible.
func (m *members) add(x *Member) {
	x.queue = memberQueues
	for q := memberQueues + 1; q < repairQueues; q++ {
		if m.queued[q] < m.queued[x.queue] {
			x.queue = uint8(q)
		}
	}
	m.queued[x.queue]++
	m.byID[x.ID] = x
	m.list = append(m.list, x)
}

// handleStatus processes a status. address returns the text of its source. docs/protocol §7.5, §8.5.
func (s *Sender) handleStatus(now Instant, flags wire.Flags, st *wire.Status, address func() string) {
	s.stats.Statuses++
	ms := &s.members
	m, x, fresh := ms.byID[st.Receiver], orderOf(st), false
	if flags&wire.FlagLeaving != 0 {
		s.farewell(now, m, x, flags, st)
		return
	}
	if m == nil {
		if x.fromFuture(now) || x.stale(s.age(now, Instant(x.echo))) || !ms.mayJoin(st.Receiver, x) {
			s.stats.StatusesStale++
			return
		}
		if ms.full() {
			s.refuse(&s.stats.ReceiversRefused, address, errMembers)
			return
		}
		m = &Member{ID: st.Receiver, Next: st.Next, Limit: st.Limit, path: memberPath{next: st.Next, lost: st.Lost}}
		ms.former.comesBack(m)
		ms.add(m)
		s.stats.ReceiversJoined++
		fresh = true
	}
	// An older status must not lower these.
	m.Next = max(m.Next, st.Next)
	m.Limit = max(m.Limit, st.Limit)
	if len(st.Tag) > 0 && m.Tag == "" { // the tag never changes
		m.Tag = wire.CleanName(st.Tag)
	}
	if d := st.Lost - m.Lost; d < 1<<31 {
		m.Lost = st.Lost
	}
	if x.before(m.last) || x.fromFuture(now) {
		s.stats.StatusesStale++
		s.admitted(now, m)
		return
	}
	if st.Echo > m.last.echo && st.EchoDelay < time.Second {
		if d := s.age(now, Instant(st.Echo)) - st.EchoDelay; d > 0 {
			s.rtt.sample(d)
			m.path.rtt.sample(d)
			s.cfg.Sink.RoundTrip(d)
		}
	}
	if s.end.begun && st.Echo >= uint64(s.end.at) && st.Echo > m.last.echo {
		m.endAnswers++
	}
	joining := flags&wire.FlagJoining != 0
	if x == m.last && m.lastAt != 0 { // either may be the older one, and a receiver joins only once
		joining = joining && m.Joining
	}
	if x != m.last || m.lastAt == 0 {
		m.last, m.lastAt = x, s.up(now)
	}
	m.alive(s.up(now))
	m.introduce(now, st, address)
	m.unread = st.Unread
	m.Joining, m.fetches = joining, joining && flags&wire.FlagWantState == 0
	s.control.Status(now, m, flags, st)
	if fresh {
		s.emit(events.SubscriberUp, m, 0, nil)
	}
	s.countLost(m)
	s.admitted(now, m)
}

// farewell processes the leaving status x of a receiver; m is the member, or nil. docs/protocol §8.5.
func (s *Sender) farewell(now Instant, m *Member, x statusOrder, flags wire.Flags, st *wire.Status) {
	switch {
	case m == nil:
		s.control.Status(now, nil, flags, st)
	case x.before(m.last):
		s.stats.StatusesStale++ // it has returned since
	default:
		m.last, m.Next = x, max(m.Next, st.Next)
		s.leaves(m)
	}
}

// leaves removes a member that sent a leaving status.
func (s *Sender) leaves(m *Member) {
	if _, may := s.control.Wants(m); may && m.Next < s.win.sent {
		s.stats.ReceiversBehind++
	}
	s.emit(events.SubscriberLeft, m, 0, nil)
	s.removeMember(m)
}

// maxEvents bounds the events that are kept until the owner takes them.
const maxEvents = 1024

// emit keeps an event of m, which has lasted for d because of err.
func (s *Sender) emit(kind events.Kind, m *Member, d time.Duration, err error) {
	wants, _ := s.control.Wants(m)
	if x := &s.members.events; len(*x) < maxEvents {
		*x = append(*x, events.Event{Kind: kind, Subscriber: events.ID(m.ID), Name: m.Name, Address: m.Address, For: d,
			Behind: m.behind(s.win.next), Relevant: wants, Err: err})
	}
}

var errMembers, errNever = errors.New("there are as many subscribers as may be"), errors.New("it names packets that were never sent")

// refuse counts a packet of a subscriber that is refused because of err. The 1st, 2nd, 4th, 8th … is an event.
func (s *Sender) refuse(count *uint64, address func() string, err error) {
	*count++
	n, x := s.stats.Malformed+s.stats.NAKInvalid+s.stats.ReceiversRefused, &s.members.events
	if n&(n-1) != 0 || len(*x) >= maxEvents {
		return
	}
	e := events.Event{Kind: events.BadPackets, Behind: n, Err: err}
	if address != nil {
		e.Address = address()
	}
	*x = append(*x, e)
}

// countLost counts the packets that m gave up, unless m is known to want no message of the stream.
func (s *Sender) countLost(m *Member) {
	if m.Lost == m.lostCounted {
		return
	}
	if _, may := s.control.Wants(m); may {
		s.stats.ReceiversLost += uint64(m.Lost - m.lostCounted)
		m.lostCounted = m.Lost
	}
}

// admitted updates flow control after a status of m.
func (s *Sender) admitted(now Instant, m *Member) {
	if m.caughtUp(s.win.trail, s.win.next) && (!m.membership.slow || s.cfg.Slow.back(m.behind(s.win.next))) {
		m.returns()
	}
	s.flow.recompute(s.cfg.Flow, s.members.list)
	s.updateStall(now)
}

func (s *Sender) removeMember(m *Member) {
	ms := &s.members
	delete(ms.byID, m.ID)
	s.control.MemberLeft(m)
	ms.queued[m.queue]--
	ms.gone.remember(m.ID, m.last)
	for i, x := range ms.list {
		if x == m {
			ms.list = append(ms.list[:i], ms.list[i+1:]...)
			break
		}
	}
	s.stats.ReceiversLeft++
	s.flow.recompute(s.cfg.Flow, s.members.list)
	s.relieve()
}

// complete reports whether all members except released ones have all packets below seq.
func (m *members) complete(seq uint64) bool {
	for _, x := range m.list {
		if x.waitedFor() && x.Next < seq {
			return false
		}
	}
	return true
}

// endAnswers is how many heartbeats with the end flag each member must answer.
const endAnswers = 2

// answered reports whether all members except released ones have answered endAnswers heartbeats.
func (m *members) answered() bool {
	for _, x := range m.list {
		if x.waitedFor() && x.endAnswers < endAnswers {
			return false
		}
	}
	return true
}

// silent reports whether a member gave no sign of life for three cadences and slowHeartbeat. docs/protocol §8.4.
func (m *members) silent(now upTime, every time.Duration) bool {
	for _, x := range m.list {
		if now.sub(x.heard) > 3*every+slowHeartbeat {
			return true
		}
	}
	return false
}

// solicited records that all members were asked for a sign of life.
func (m *members) solicited(now upTime) {
	for _, x := range m.list {
		switch {
		case x.asked == (solicited{}):
			x.asked.since = now
		case m.unsent:
			x.asked.since = x.asked.since.add(now.sub(m.askedAt))
		}
		x.asked.times++
	}
	m.askedAt, m.unsent = now, false
}

// Runs is Running.Runs. If the owner did not run, replies of members may be unread or lost: it asks the members anew.
func (s *Sender) Runs(now Instant) {
	if s.Running.Runs(now) > 0 {
		s.RepliesLost()
	}
}

// unanswered is how long x has been asked for a sign of life without giving one.
func (x *Member) unanswered(now upTime) time.Duration {
	if x.asked.times == 0 {
		return 0
	}
	return now.sub(x.asked.since)
}

// RepliesRead records that all replies that arrived before that time have been handled; later ones may be unread.
// Without any call replies count as read when they arrive. docs/protocol §6.15.
func (s *Sender) RepliesRead(before Instant) { s.members.read = before }

// RepliesLost records that this host dropped replies, or did not send questions: the silence of members counts only
// after they have been asked as often again. docs/protocol §8.4.
func (s *Sender) RepliesLost() {
	for _, x := range s.members.list {
		x.asked.times = 0
	}
}

// giveUp removes members that stayed silent through all solicitations. docs/protocol §8.4.
func (m *members) giveUp(s *Sender, at Instant) {
	now, judged := s.up(at), s.up(min(at, m.read))
	m.former.forget(now)
	for i := 0; i < len(m.list); {
		x := m.list[i]
		if x.asked.times < solicitations || judged.sub(x.asked.since) < max(s.cfg.Silence, silenceRTTs*s.rtt.value()) {
			i++
			continue
		}
		s.emit(events.SubscriberSilent, x, now.sub(x.heard), nil)
		s.removeMember(x)
		m.former.remember(x)
		s.stats.ReceiversLeft--
		s.stats.ReceiversSilent++
	}
}

// TakeEvents returns the events of subscribers, and of packets of theirs that were refused, since the last call.
func (s *Sender) TakeEvents() []events.Event {
	all := s.members.events
	s.members.events = nil
	return all
}

// RTT is the smoothed round trip to members, zero before the first measurement.
func (s *Sender) RTT() time.Duration { return s.rtt.known() }
