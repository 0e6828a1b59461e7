package reliable

import (
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// topicQuestions ask members for topics, for those that ask how many subscribe to one: a status names few topics, and a
// pattern stands for any. A heartbeat asks for one, as long as some member has not answered. docs/protocol §7.10.
type topicQuestions struct {
	list []question
	now  int          // the one that heartbeats ask
	open bool         // some member has yet to answer that, as of the last heartbeat
	sent []askedTopic // when that changed, the newest last
}

// question is whether a topic is wanted. It has a bit in Member.answered and Member.wanting: its index.
type question struct {
	topic uint64
	at    Instant // when the answer was last wanted
	begun Instant // heartbeats ask it since
	done  Instant // all had answered
}

// askedTopic is what the heartbeats from sent on ask for, as their statuses echo.
type askedTopic struct {
	sent  uint64
	topic uint64
}

const (
	// maxQuestions bounds the topics that answers are remembered of.
	maxQuestions = 64
	// questionsKept bounds the changes of what is asked that statuses may still answer.
	questionsKept = 16
	// askTurns is for how many round trips a question is asked before the next one has its turn, and leastAskTurn for
	// how long.
	askTurns, leastAskTurn = 2, 20 * time.Millisecond
	// askAgain is how old answers may be, and askFor for how long it is asked for those that want to know once.
	askAgain, askFor = time.Second, 10 * time.Second
)

// lists reports whether m names the topic, or wants any: zero is any.
func (m *Member) lists(topic uint64) bool { return topic == 0 || slices.Contains(m.Topics, topic) }

// listsAll reports whether m wants no topics but those that it names. One that has named none yet may want any.
func (m *Member) listsAll() bool { return !m.MoreTopics && len(m.Topics) > 0 }

// mayWant reports whether m wants a topic, as far as is known.
func (m *Member) mayWant(q *topicQuestions, topic uint64) bool {
	return m.knownToWant(q, topic) || m.owes(q, topic)
}

// knownToWant reports whether m has said that it wants a topic.
func (m *Member) knownToWant(q *topicQuestions, topic uint64) bool {
	return m.lists(topic) || m.MoreTopics && m.wanting&q.bit(topic) != 0
}

// owes reports whether m has yet to say whether it wants a topic.
func (m *Member) owes(q *topicQuestions, topic uint64) bool {
	return !m.listsAll() && !m.lists(topic) && m.answered&q.bit(topic) == 0
}

// wantsOurs reports whether m has said that it wants a topic of the stream, and whether it may: it has not said no
// to all.
func (s *Sender) wantsOurs(m *Member) (known, may bool) {
	q := &s.members.questions
	known = slices.ContainsFunc(m.Topics, func(id uint64) bool { return s.topics.byID[id] != nil }) ||
		m.MoreTopics && m.wanting != 0
	return known, known || !m.listsAll() && (len(s.topics.list) > len(q.list) || m.said != 1<<len(q.list)-1)
}

// Wanted reports whether a subscriber is there that wants a topic of the stream, or may.
func (s *Sender) Wanted() bool {
	return slices.ContainsFunc(s.members.list, func(m *Member) bool {
		_, may := s.wantsOurs(m)
		return may
	})
}

// bit is the topic's, or none.
func (q *topicQuestions) bit(topic uint64) uint64 {
	for i := range q.list {
		if q.list[i].topic == topic {
			return 1 << i
		}
	}
	return 0
}

// Receivers is the number of subscribers that are known to want a topic; zero is any.
func (s *Sender) Receivers(topic uint64) int {
	n := 0
	for _, m := range s.members.list {
		if m.knownToWant(&s.members.questions, topic) {
			n++
		}
	}
	return n
}

// Ask returns how many subscribers are known to want a topic, and reports whether others may:
// then they are asked, and the answer is known after a round trip.
func (s *Sender) Ask(now Instant, topic uint64) (known int, open bool) {
	if topic == 0 || !slices.ContainsFunc(s.members.list,
		func(m *Member) bool { return !m.listsAll() && !m.lists(topic) }) {
		return s.Receivers(topic), false
	}
	q := &s.members.questions
	i := slices.IndexFunc(q.list, func(x question) bool { return x.topic == topic })
	if i < 0 {
		if i = s.members.newQuestion(now, topic); i < 0 {
			return s.Receivers(topic), true // it has its turn when others have been answered
		}
	}
	x := &q.list[i]
	if x.done != 0 && now.Sub(x.done) > askAgain && !q.last(topic) {
		x.done = 0
		for _, m := range s.members.list {
			m.answered &^= 1 << i
		}
	}
	x.at = now
	for _, m := range s.members.list {
		switch {
		case m.owes(q, topic):
			open = true
		case m.knownToWant(q, topic):
			known++
		}
	}
	if open {
		after := awaitHeartbeat
		if q.last(topic) {
			after = s.askTurn()
		}
		s.heartbeat.by(max(now, s.heartbeat.last.Add(after)))
	}
	return known, open
}

// askTurn is how long an answer may take.
func (s *Sender) askTurn() time.Duration { return max(leastAskTurn, askTurns*s.rtt.value()) }

// last reports whether it is the topic that was asked last: every status answers that.
func (q *topicQuestions) last(topic uint64) bool {
	return len(q.sent) > 0 && q.sent[len(q.sent)-1].topic == topic
}

// newQuestion finds room for one. It returns -1 where there is none: those that are asked and not answered yet stay.
func (m *members) newQuestion(now Instant, topic uint64) int {
	q := &m.questions
	if len(q.list) < maxQuestions {
		q.list = append(q.list, question{topic: topic})
		return len(q.list) - 1
	}
	oldest := -1
	for i := range q.list {
		if x := &q.list[i]; (x.done != 0 || x.expired(now)) && (oldest < 0 || x.at < q.list[oldest].at) {
			oldest = i
		}
	}
	if oldest >= 0 {
		q.list[oldest] = question{topic: topic}
		for _, x := range m.list {
			x.answered &^= 1 << oldest
			x.wanting &^= 1 << oldest
			x.said &^= 1 << oldest
		}
	}
	return oldest
}

// expired reports whether it is not asked any more: it was not asked for again.
func (x *question) expired(now Instant) bool { return now.Sub(x.at) > askFor }

// open reports whether some member has yet to say whether it wants the topic of question i, and the answer is wanted.
func (s *Sender) open(now Instant, i int) bool {
	q := &s.members.questions
	x := &q.list[i]
	if x.expired(now) {
		return false
	}
	if slices.ContainsFunc(s.members.list, func(m *Member) bool { return m.owes(q, x.topic) }) {
		return true
	}
	if x.done == 0 {
		x.done = now
	}
	return false
}

// question is the topic that a heartbeat asks for at now, the one before until another one is to be asked; zero:
// none. It reports whether members are late with their answer.
func (s *Sender) question(now Instant) (topic uint64, late bool) {
	q := &s.members.questions
	if len(q.list) == 0 {
		return 0, false
	}
	open := s.open(now, q.now)
	late = open && q.last(q.list[q.now].topic) && now.Sub(q.list[q.now].begun) >= s.askTurn()
	soon := open && !q.open
	if !open || late {
		for i := 1; i < len(q.list); i++ {
			if next := (q.now + i) % len(q.list); s.open(now, next) {
				soon = soon || !late
				q.now, open, late = next, true, false
				break
			}
		}
	}
	if q.open = open; soon { // but where members are late the ladder goes on
		s.heartbeat.hasten(now, s.askTurn())
	}
	x := &q.list[q.now]
	if !q.last(x.topic) {
		x.begun = now
		if len(q.sent) == questionsKept {
			q.sent = slices.Delete(q.sent, 0, 1)
		}
		q.sent = append(q.sent, askedTopic{uint64(now), x.topic})
	}
	return x.topic, late
}

// answers takes in what a member's status with topics, which is not an old one, says of the question that it has
// heard last. One that asks for topics may learn yet that it wants this one.
func (q *topicQuestions) answers(m *Member, echo uint64, asks bool) {
	for i := len(q.sent) - 1; i >= 0; i-- {
		x := q.sent[i]
		if x.sent > echo {
			continue
		}
		bit := q.bit(x.topic)
		switch {
		case slices.Contains(m.Topics, x.topic):
			m.wanting |= bit
		case asks:
			return
		default:
			m.wanting &^= bit
		}
		m.answered |= bit
		m.said |= bit
		return
	}
}

// asks handles the question of a heartbeat. Where statuses name all topics, they answer it already, unless they
// were lost. A pattern may want a topic with a name that is still to come. docs/protocol §7.10.
func (p *reportState) asks(st *Stream, now Instant, flags wire.Flags, hb *wire.Heartbeat) {
	if hb.Asked == 0 {
		return
	}
	anew := p.asked != hb.Asked
	p.asked = hb.Asked // also where it is answered already: more topics may be wanted later than statuses name
	namesAll := !st.r.names.hold && len(st.r.topics) <= wire.MaxTaggedTopics
	if flags&wire.FlagSolicit == 0 && (namesAll || !anew) {
		return
	}
	if anew && st.r.names.hold && st.r.names.known.Get(hb.Asked) == nil && !st.life.finished {
		st.askNames(now, st.next)
	}
	p.topics = true
	p.solicited(st.r.cfg.Rand, max(now, p.changeAt), hb)
}

// namedTopics are the topics that statuses name: the one that was asked for first, if it is wanted.
func (st *Stream) namedTopics() []uint64 {
	id, topics, to := st.report.asked, st.r.topics, st.r.named[:0]
	if id == 0 {
		return topics
	}
	if _, ok := st.r.wanted(id); !ok {
		return topics
	}
	to = append(to, id)
	for _, t := range topics {
		if len(to) == cap(to) {
			break
		}
		if t != id {
			to = append(to, t)
		}
	}
	return to
}
