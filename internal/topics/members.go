package topics

import (
	"slices"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
)

// member is what a member of the stream has stated about topics.
type member struct {
	m *reliable.Member
	// topics are the ids of the topics that its statuses name.
	topics     []uint64
	moreTopics bool // it has subscriptions that topics does not list
	wantTopics bool
	wantsState bool // it waits for state
	index      memberIndex
	answered   uint64 // answered questions, as bits
	said       uint64 // the same, but kept when a question is asked again
	wanting    uint64 // questions last answered with yes
}

// members holds the members of the stream, in the order in which they joined.
type members struct {
	byID      map[uint64]*member
	list      []*member
	max       int
	questions topicQuestions
}

// member returns the member with an id, or nil, whether it is known to want a topic, and whether it wants, or may want,
// the topic.
func (x *members) member(id, topic uint64) (_ *reliable.Member, known, may bool) {
	m := x.byID[id]
	if m == nil {
		return nil, false, false
	}
	known = m.knownToWant(&x.questions, topic)
	return m.m, known, known || m.owes(&x.questions, topic)
}

// Status implements reliable.SenderControl.
func (s *Sender) Status(now reliable.Instant, x *reliable.Member, flags wire.Flags, st *wire.Status) {
	if x == nil {
		if flags&wire.FlagWantTopics != 0 {
			s.index.asks(now, nil, questionOf(st)) // a bus that only lists topics: §9.10
		}
		return
	}
	m := s.members.byID[x.ID]
	if m == nil {
		m = &member{m: x}
		s.members.byID[x.ID] = m
		s.members.list = append(s.members.list, m)
	}
	m.wantsState, m.wantTopics = flags&wire.FlagWantState != 0, flags&wire.FlagWantTopics != 0
	if st.Topics() > 0 || flags&wire.FlagMoreTopics != 0 {
		m.topics = m.topics[:0]
		for i := range st.Topics() {
			m.topics = append(m.topics, st.Topic(i))
		}
		m.moreTopics = flags&wire.FlagMoreTopics != 0
		s.answered(m, st.Echo, st.Next)
	}
	if m.wantsState {
		s.state.asks(now, x.Next)
	}
	if m.wantTopics {
		s.index.asks(now, m, questionOf(st))
	}
}

// MemberLeft implements reliable.SenderControl: a request may wait for the member.
func (s *Sender) MemberLeft(x *reliable.Member) {
	delete(s.members.byID, x.ID)
	s.members.list = slices.DeleteFunc(s.members.list, func(m *member) bool { return m.m == x })
	s.Requests.memberLeft()
}

// Wants implements reliable.SenderControl.
func (s *Sender) Wants(x *reliable.Member) (known, may bool) {
	return s.wantsOurs(s.members.byID[x.ID])
}

// Asks implements reliable.SenderControl.
func (s *Sender) Asks(x *reliable.Member) bool { return s.members.byID[x.ID].asksIndex() }

// Heartbeat implements reliable.SenderControl.
func (s *Sender) Heartbeat(now reliable.Instant) (x reliable.Asking) {
	topic, late, soon := s.question(now)
	x.Topic, x.Open = topic, s.members.questions.open
	if late {
		x.Flags |= wire.FlagSolicit
	}
	if s.state.kept() {
		x.Flags |= wire.FlagState
	}
	if soon {
		x.Within = s.askTurn()
	}
	return x
}
