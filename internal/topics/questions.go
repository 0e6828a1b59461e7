package topics

import (
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

// topicQuestions asks members whether they want a topic, for callers that count its subscribers: a status names few
// topics, and a pattern covers any. Heartbeats ask for one topic at a time while a member has not answered.
// docs/protocol §7.10.
type topicQuestions struct {
	list []question
	now  int          // index of the question that heartbeats ask
	open bool         // as of the last heartbeat, a member had not answered it
	sent []askedTopic // changes of the topic asked, the newest last
}

// question asks whether a topic is wanted. Its index is its bit in member.answered, said and wanting.
type question struct {
	topic uint64
	at    reliable.Instant // when a caller last asked
	begun reliable.Instant // since when heartbeats ask it
	done  reliable.Instant // when all members had answered
}

// askedTopic is the topic that heartbeats ask for from SentAt sent on; statuses echo SentAt.
type askedTopic struct {
	sent  uint64
	topic uint64
}

const (
	// maxQuestions is the maximum number of topics with kept answers.
	maxQuestions = 64
	// questionsKept is the number of past changes of the topic asked that statuses may still answer.
	questionsKept = 16
	// A question is asked for askTurns round trips, and leastAskTurn at least, before the next one has its turn.
	askTurns, leastAskTurn = 2, 20 * time.Millisecond
	// askAgain is the maximum age of an answer, askFor how long heartbeats ask after one call of Ask.
	askAgain, askFor = time.Second, 10 * time.Second
	// askSoon is how soon after the last heartbeat a new question is asked.
	askSoon = 2 * time.Millisecond
)

// lists reports whether m names the topic; 0: any topic.
func (m *member) lists(topic uint64) bool { return topic == 0 || slices.Contains(m.topics, topic) }

// listsAll reports whether m names all topics that it wants. A member that has named none yet may want any.
func (m *member) listsAll() bool { return !m.moreTopics && len(m.topics) > 0 }

// knownToWant reports whether m has stated that it wants a topic.
func (m *member) knownToWant(q *topicQuestions, topic uint64) bool {
	return m.lists(topic) || m.moreTopics && m.wanting&q.bit(topic) != 0
}

// owes reports whether m has not stated yet whether it wants a topic.
func (m *member) owes(q *topicQuestions, topic uint64) bool {
	return !m.listsAll() && !m.lists(topic) && m.answered&q.bit(topic) == 0
}

// wantsOurs reports whether m has stated that it wants a topic of the stream, and whether it may want one, because it
// has not said no to all.
func (s *Sender) wantsOurs(m *member) (known, may bool) {
	q := &s.members.questions
	known = slices.ContainsFunc(m.topics, func(id uint64) bool { return s.topics.byID[id] != nil }) ||
		m.moreTopics && m.wanting != 0
	return known, known || !m.listsAll() && (len(s.topics.list) > len(q.list) || m.said != 1<<len(q.list)-1)
}

// Wanted reports whether a member wants, or may want, a topic of the stream.
func (s *Sender) Wanted() bool {
	return slices.ContainsFunc(s.members.list, func(m *member) bool {
		_, may := s.wantsOurs(m)
		return may
	})
}

// bit returns the bit of the topic's question, or 0.
func (q *topicQuestions) bit(topic uint64) uint64 {
	for i := range q.list {
		if q.list[i].topic == topic {
			return 1 << i
		}
	}
	return 0
}

// Receivers is the number of members known to want a topic; 0: any topic.
func (s *Sender) Receivers(topic uint64) int {
	n := 0
	for _, m := range s.members.list {
		if m.knownToWant(&s.members.questions, topic) {
			n++
		}
	}
	return n
}

// Ask returns how many members are known to want a topic, and whether others may. It then asks these; they answer
// within a round trip.
func (s *Sender) Ask(now reliable.Instant, topic uint64) (known int, open bool) {
	if topic == 0 || !slices.ContainsFunc(s.members.list,
		func(m *member) bool { return !m.listsAll() && !m.lists(topic) }) {
		return s.Receivers(topic), false
	}
	s.index.introduce(s.topics.byID[topic])
	q := &s.members.questions
	i := slices.IndexFunc(q.list, func(x question) bool { return x.topic == topic })
	if i < 0 {
		if i = s.members.newQuestion(now, topic); i < 0 {
			return s.Receivers(topic), true // asked after other questions were answered
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
		after := askSoon
		if q.last(topic) {
			after = s.askTurn()
		}
		s.stream.HeartbeatAfter(now, after)
	}
	return known, open
}

// askTurn is how long an answer may take.
func (s *Sender) askTurn() time.Duration { return max(leastAskTurn, askTurns*s.stream.RTT()) }

// last reports whether topic was asked last: every status answers that question.
func (q *topicQuestions) last(topic uint64) bool {
	return len(q.sent) > 0 && q.sent[len(q.sent)-1].topic == topic
}

// newQuestion returns the index of a new question, or -1 if there is no room: unanswered questions are not replaced.
func (m *members) newQuestion(now reliable.Instant, topic uint64) int {
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

// expired reports whether the question is no longer asked, because no caller asked again.
func (x *question) expired(now reliable.Instant) bool { return now.Sub(x.at) > askFor }

// open reports whether question i is asked, and a member has not answered it.
func (s *Sender) open(now reliable.Instant, i int) bool {
	q := &s.members.questions
	x := &q.list[i]
	if x.expired(now) {
		return false
	}
	if slices.ContainsFunc(s.members.list, func(m *member) bool { return m.owes(q, x.topic) }) {
		return true
	}
	if x.done == 0 {
		x.done = now
	}
	return false
}

// question returns the topic for which a heartbeat asks at now: the previous one until another is asked; 0: none. It
// reports whether members are late with their answer, and whether the next heartbeat is due soon.
func (s *Sender) question(now reliable.Instant) (topic uint64, late, soon bool) {
	q := &s.members.questions
	if len(q.list) == 0 {
		return 0, false, false
	}
	open := s.open(now, q.now)
	late = open && q.last(q.list[q.now].topic) && now.Sub(q.list[q.now].begun) >= s.askTurn()
	soon = open && !q.open
	if !open || late {
		for i := 1; i < len(q.list); i++ {
			if next := (q.now + i) % len(q.list); s.open(now, next) {
				soon = soon || !late // where members are late the ladder continues
				q.now, open, late = next, true, false
				break
			}
		}
	}
	q.open = open
	x := &q.list[q.now]
	if !q.last(x.topic) {
		x.begun = now
		if len(q.sent) == questionsKept {
			q.sent = slices.Delete(q.sent, 0, 1)
		}
		q.sent = append(q.sent, askedTopic{uint64(now), x.topic})
	}
	return x.topic, late, soon
}

// answered processes a member's status with topics, unless it is an old one, as an answer to the latest question that
// it echoes. A member with a pattern may yet learn that it wants the topic, while it joins, asks for an index round, or
// has not passed the packet with the topic's name.
func (s *Sender) answered(m *member, echo, next uint64) {
	q := &s.members.questions
	for i := len(q.sent) - 1; i >= 0; i-- {
		x := q.sent[i]
		if x.sent > echo {
			continue
		}
		bit := q.bit(x.topic)
		switch {
		case slices.Contains(m.topics, x.topic):
			m.wanting |= bit
		case m.moreTopics && (m.wantTopics || m.m.Joining || !s.topics.byID[x.topic].namedBefore(next)):
			return
		default:
			m.wanting &^= bit
		}
		m.answered |= bit
		m.said |= bit
		return
	}
}
