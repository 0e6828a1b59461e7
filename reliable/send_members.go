package reliable

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Member is what a publisher knows of one subscriber.
type Member struct {
	ID    uint64
	Next  uint64 // lowest sequence it lacks
	Limit uint64 // first sequence it has no room for
	Lost  uint32 // packets it has given up
	// Topics are the ids of the topics it subscribes to, as far as it says.
	Topics     []uint64
	MoreTopics bool // there are more than it says
	// Name is what it calls itself, fit to be shown, and Address where it sends from, as far as they are known.
	Name    string
	Address string
	// Tag is the one that it carries, fit to be shown; empty: none, or it has not said yet.
	Tag string

	membership
	memberTopics
	lagging lagging
	path    memberPath

	wireName  string
	addressAt Instant // when Address was looked up
	unread    uint32  // packets that it has not read
	// lostCounted is what of Lost is counted in Stats.
	lostCounted uint32
	joining     bool // it fetches what was sent before it came, or waits for state
	wantsState  bool // it waits for state

	queue   uint8 // of the repairs it asks for
	heard   upTime
	last    statusOrder // of the newest of its statuses
	lastAt  upTime      // when that came first
	asked   solicited   // since it was heard last
	namedAt Instant     // by a heartbeat, last
}

// solicited is how often a member was asked for a sign of life since replies were lost last, and since when.
type solicited struct {
	times int
	since upTime
}

// memberTopics is what a member asks, and has answered, about topics.
type memberTopics struct {
	wantTopics bool
	tellings   int    // of the topics that its last status still draws
	answered   uint64 // questions that it has answered, by their bits
	said       uint64 // the same, also if they are asked again since
	wanting    uint64 // with yes, last
}

// members is the publisher's account of its subscribers.
type members struct {
	byID map[uint64]*Member
	list []*Member
	max  int
	// queued is how many have each queue of repairs.
	queued    [repairQueues]int
	gone      tombstones[uint64, statusOrder]
	former    formerlyReleased
	questions topicQuestions
	trailing  trailing
	// came, left and givenUp are the subscribers that joined, left and were given up since the
	// caller took them last, for its events: maxHolds of each at most.
	came, left, givenUp []events.Hold
	read                Instant // all replies that came before have been handled
	askedAt             upTime  // when all were asked last
	unsent              bool    // a control packet since then did not leave: the time to the next question does not count
}

func (m *members) init(most int) {
	m.byID = make(map[uint64]*Member)
	m.max, m.gone, m.read = most, formerMembers(), Never
}

// asks notes a NAK from a member, which is a sign of life, and returns the member, nil if it is none.
func (m *members) asks(now upTime, id uint64) *Member {
	x := m.byID[id]
	if x != nil {
		x.alive(now)
	}
	return x
}

// full reports whether there is no room for another: then a receiver that is not a member may be a subscriber all
// the same.
func (m *members) full() bool { return len(m.list) >= m.max }

// counts reports whether flow control waits for it, if it does for any. A member that fetches history does so as
// fast as others leave room, and holds up no publisher. docs/protocol §8.10.
func (x *Member) counts() bool { return x.waitedFor() && !x.joining }

// alive notes a sign of life, unless it is long since it said anything new.
func (x *Member) alive(now upTime) {
	if now.sub(x.lastAt) < repeatedLife {
		x.heard, x.asked = now, solicited{}
	}
}

// mayJoin reports whether a status may make its subscriber a member: if that has left, one that is
// newer than its farewell.
func (m *members) mayJoin(id uint64, x statusOrder) bool {
	last, ok := m.gone.find(id)
	return !ok || x.supersedes(last)
}

// add takes x in. It shares its queue of repairs with as few as can be.
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

// handleStatus takes in a status. address is the text of where it came from. docs/protocol §7.5, §8.5.
func (s *Sender) handleStatus(now Instant, flags wire.Flags, st *wire.Status, address func() string) {
	s.stats.Statuses++
	ms := &s.members
	m, x, fresh := ms.byID[st.Receiver], orderOf(st), false
	if flags&wire.FlagLeaving != 0 {
		s.farewell(now, m, x, flags, st.Next)
		return
	}
	if m == nil {
		if x.fromFuture(now) || x.stale(s.age(now, Instant(x.echo))) || !ms.mayJoin(st.Receiver, x) {
			s.stats.StatusesStale++
			return
		}
		if ms.full() {
			s.stats.ReceiversRefused++
			return
		}
		m = &Member{ID: st.Receiver, Next: st.Next, Limit: st.Limit, path: memberPath{next: st.Next, lost: st.Lost}}
		ms.former.comesBack(m)
		ms.add(m)
		s.stats.ReceiversJoined++
		fresh = true
	}
	// An older status takes nothing back.
	m.Next = max(m.Next, st.Next)
	m.Limit = max(m.Limit, st.Limit)
	if len(st.Tag) > 0 && m.Tag == "" { // nor is there another tag in a newer one
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
	if x != m.last || m.lastAt == 0 {
		m.last, m.lastAt = x, s.up(now)
	}
	m.alive(s.up(now))
	m.introduce(now, st, address)
	m.unread = st.Unread
	m.joining, m.wantsState = flags&wire.FlagJoining != 0, flags&wire.FlagWantState != 0
	m.wantTopics = flags&wire.FlagWantTopics != 0
	if st.Topics() > 0 || flags&wire.FlagMoreTopics != 0 {
		m.Topics = m.Topics[:0]
		for i := range st.Topics() {
			m.Topics = append(m.Topics, st.Topic(i))
		}
		m.MoreTopics = flags&wire.FlagMoreTopics != 0
		s.members.questions.answers(m, st.Echo, m.wantTopics)
	}
	if fresh {
		ms.came = appendHold(ms.came, s.holdOf(m, 0))
	}
	s.countLost(m)
	if m.wantsState {
		s.state.asks(now, m.Next)
	}
	s.admitted(now, m)
	if m.wantTopics {
		m.tellings = announceAgain
		s.topics.announceAll(now)
	}
}

// farewell takes in the status x of a receiver that leaves, of m if it is a member. docs/protocol §8.5.
func (s *Sender) farewell(now Instant, m *Member, x statusOrder, flags wire.Flags, next uint64) {
	switch {
	case m == nil && flags&wire.FlagWantTopics != 0:
		s.topics.announceAll(now) // it lists topics, and receives nothing: §9.10
	case m == nil:
	case x.before(m.last):
		s.stats.StatusesStale++ // it is back since
	default:
		m.last, m.Next = x, max(m.Next, next)
		s.leaves(m)
	}
}

// leaves lets a member go that has taken its leave.
func (s *Sender) leaves(m *Member) {
	if _, may := s.wantsOurs(m); may && m.Next < s.win.sent {
		s.stats.ReceiversBehind++
	}
	s.members.left = appendHold(s.members.left, s.holdOf(m, 0))
	s.removeMember(m)
}

// holdOf is m's hold, of d, with whether it wants a topic of the stream.
func (s *Sender) holdOf(m *Member, d time.Duration) events.Hold {
	h := m.hold(d, s.win.next)
	h.Wants, _ = s.wantsOurs(m)
	return h
}

// countLost counts what m has given up, unless it wants nothing of the stream as far as is known.
func (s *Sender) countLost(m *Member) {
	if m.Lost == m.lostCounted {
		return
	}
	if _, may := s.wantsOurs(m); may {
		s.stats.ReceiversLost += uint64(m.Lost - m.lostCounted)
		m.lostCounted = m.Lost
	}
}

// admitted carries on with what a status of m admits.
func (s *Sender) admitted(now Instant, m *Member) {
	if m.caughtUp(s.win.trail, s.win.next) && (!m.membership.slow || s.cfg.Slow.back(m.behind(s.win.next))) {
		m.returns()
	}
	s.flow.recompute(s.cfg.Flow, s.members.list)
	s.lookForStall(now)
}

func (s *Sender) removeMember(m *Member) {
	ms := &s.members
	delete(ms.byID, m.ID)
	s.requests.memberWent()
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

// complete reports whether all have everything below seq and want nothing else, but those that were released.
func (m *members) complete(seq uint64) bool {
	for _, x := range m.list {
		if x.waitedFor() && (x.Next < seq || x.wantTopics) {
			return false
		}
	}
	return true
}

// endAnswers is how many heartbeats of the end a member has answered: the end counts for it after two.
const endAnswers = 2

// answered reports whether all have answered so many.
func (m *members) answered() bool {
	for _, x := range m.list {
		if x.waitedFor() && x.endAnswers < endAnswers {
			return false
		}
	}
	return true
}

// announceAgain announces the topics once more to members that are known to want them still. docs/protocol §9.3.
func (s *Sender) announceAgain(now Instant) {
	again := false
	for _, x := range s.members.list {
		again = again || x.wantTopics && x.tellings > 0
	}
	if !again || !s.topics.announceAll(now) {
		return
	}
	for _, x := range s.members.list {
		x.tellings = max(0, x.tellings-1)
	}
}

// silent reports whether a member has said nothing for three times the cadence of statuses. docs/protocol §8.4.
func (m *members) silent(now upTime, every time.Duration) bool {
	for _, x := range m.list {
		if now.sub(x.heard) > 3*every+slowHeartbeat {
			return true
		}
	}
	return false
}

// solicited notes that all members were asked for a sign of life.
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

// Runs is Running.Runs. What members have answered while the owner did not run may lie unread, or be
// lost: they are asked anew.
func (s *Sender) Runs(now Instant) {
	if s.Running.Runs(now) > 0 {
		s.RepliesLost()
	}
}

// unanswered is for how long it has been asked for a sign of life, and has given none.
func (x *Member) unanswered(now upTime) time.Duration {
	if x.asked.times == 0 {
		return 0
	}
	return now.sub(x.asked.since)
}

// RepliesRead records that all replies that arrived before that time have been handled; later ones may be unread.
// Without any call replies are taken as read when they arrive. docs/protocol §6.15.
func (s *Sender) RepliesRead(before Instant) { s.members.read = before }

// RepliesLost says that replies were dropped on this host, or questions not sent: that a member was not heard says
// nothing until it has been asked as often again. docs/protocol §8.4.
func (s *Sender) RepliesLost() {
	for _, x := range s.members.list {
		x.asked.times = 0
	}
}

// giveUp gives up the members that stayed silent through all solicitations. docs/protocol §8.4.
func (m *members) giveUp(s *Sender, at Instant) {
	now, judged := s.up(at), s.up(min(at, m.read))
	m.former.forget(now)
	for i := 0; i < len(m.list); {
		x := m.list[i]
		if x.asked.times < solicitations || judged.sub(x.asked.since) < max(s.cfg.Silence, silenceRTTs*s.rtt.value()) {
			i++
			continue
		}
		s.removeMember(x)
		m.former.remember(x)
		s.stats.ReceiversLeft--
		s.stats.ReceiversSilent++
		m.givenUp = append(m.givenUp, s.holdOf(x, now.sub(x.heard)))
	}
}

// maxHolds bounds what is kept for events until they are taken.
const maxHolds = 1024

// appendHold appends h, if there is room.
func appendHold(list []events.Hold, h events.Hold) []events.Hold {
	if len(list) < maxHolds {
		list = append(list, h)
	}
	return list
}

// TakeCame returns the subscribers that came since the last call, and TakeLeft those that took their leave.
func (s *Sender) TakeCame() []events.Hold { return take(&s.members.came) }

// TakeLeft: see TakeCame.
func (s *Sender) TakeLeft() []events.Hold { return take(&s.members.left) }

func take(list *[]events.Hold) []events.Hold {
	all := *list
	*list = nil
	return all
}

// TakeSilent returns the subscribers that were given up as silent since the last call, with how long they have been.
func (s *Sender) TakeSilent() []events.Hold {
	r := s.members.givenUp
	s.members.givenUp = nil
	return r
}

// RTT is the smoothed round trip to subscribers, zero before it was measured.
func (s *Sender) RTT() time.Duration { return s.rtt.known() }
