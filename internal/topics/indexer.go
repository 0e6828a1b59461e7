package topics

import (
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
)

// Index rounds: a publisher puts topic runs with names and numbers of topics into its stream, for receivers that have
// joined late or lost packets permanently. docs/protocol §9.6.

// indexer answers the questions of receivers with rounds, one after the other.
//
//	      a question      WriteIndex           it has its sequence          all are written
//	┌──────┐ ────► ┌─────┐ ────────► ┌───────┐ ───────────────────► ┌────────┐ ─────────────► ┌──────┐
//	│ idle │       │ due │           │ begun │                      │ writes │                │ idle │
//	└──────┘       └─────┘           └───────┘                      └────────┘                └──────┘
//	     ends: the run that begins the round is written             topics of the round are chosen
type indexer struct {
	asked     reliable.Instant // since when questions wait; reliable.Never: none does
	rest      reliable.Instant // no round begins before
	strangers []indexQuestion  // of receivers that are no members
	said      []*Topic         // names that were asked for before the topic's first message

	phase indexPhase
	last  bool   // it is the last round of the stream
	begun uint64 // Writer.Begun with the run that begins the round
	since uint64
	all   bool
	only  []*Topic         // without all: topics that the answered receivers want
	todo  []*Topic         // topics that are still to be written
	due   reliable.Instant // when to write more
	pause time.Duration    // after this round
	bytes int              // size of the round so far
	buf   []byte
}

type indexPhase uint8

const (
	indexIdle indexPhase = iota
	indexBegun
	indexWrites
	indexClosed // the last round of the stream is written
)

// indexQuestion asks for the topics that a receiver may want with messages from sequence since on.
type indexQuestion struct {
	id     uint64
	number uint32
	since  uint64
}

func questionOf(st *wire.Status) indexQuestion {
	return indexQuestion{st.Receiver, st.Question, st.Since}
}

// memberIndex is a member's latest question, and the number of the one that was answered last.
type memberIndex struct {
	question indexQuestion
	answered uint32
}

// asksIndex reports whether the member has a question that no round has answered.
func (m *member) asksIndex() bool {
	return m.wantTopics && m.index.answered != m.index.question.number
}

const (
	// indexRate is the rate of index rounds, in bytes a second, and indexEvery the interval between the parts of a round:
	// other messages go between them. indexWait is how often a round without packet memory tries to get some.
	indexRate  = 2 << 20
	indexEvery = 500 * time.Microsecond
	indexWait  = 10 * time.Millisecond
	// indexPause is the pause after a round. It doubles, up to maxIndexPause, while questions come without a break: a
	// receiver that loses packets all the time asks all the time.
	indexPause, maxIndexPause = time.Millisecond, time.Second
	// maxStrangers bounds the questions of non-members that one round answers.
	maxStrangers = 16
)

// asks records a question of member m, or of a receiver that is no member. Each question is answered once.
func (x *indexer) asks(now reliable.Instant, m *member, q indexQuestion) {
	switch {
	case m != nil && m.index.answered == q.number:
		return
	case m != nil:
		m.index.question = q
	case len(x.strangers) == maxStrangers || slices.Contains(x.strangers, q):
		return
	default:
		x.strangers = append(x.strangers, q)
	}
	x.asked = min(x.asked, now)
}

// introduce puts the name of a topic into the stream before its first message, because members are asked whether they
// want the topic: a pattern can only answer if it knows the name.
func (x *indexer) introduce(t *Topic) {
	if t != nil && !t.asked && t.naming.by.Load() != namedBefore {
		t.asked = true
		x.said = append(x.said, t)
	}
}

// IndexDue is when WriteIndex has something to write. While packets of the writer wait for their sequence, the round
// waits, too.
func (s *Sender) IndexDue() reliable.Instant {
	x := &s.index
	switch {
	case x.last || s.stream.Ended():
		return reliable.Never
	case len(x.said) > 0 || x.phase != indexIdle:
		return x.due
	case x.asked == reliable.Never:
		return reliable.Never
	}
	return max(x.asked, x.rest, x.due)
}

// WriteIndex writes what is due of an index round into the packets of w, which must not be within a message. Call
// Assign then.
func (s *Sender) WriteIndex(now reliable.Instant, w *Writer) {
	x := &s.index
	if now < s.IndexDue() {
		return
	}
	if x.due = now.Add(indexEvery); !w.Packets.Granted() { // there is no memory
		x.due = now.Add(indexWait)
		return
	}
	for len(x.said) > 0 {
		if !w.name(x.said[0]) {
			return
		}
		x.said = x.said[1:]
	}
	if x.phase == indexIdle {
		if x.asked != reliable.Never && now >= x.rest && s.beginRound(w) {
			x.due = now // it gets its sequence now
		}
		return
	}
	if x.write(s, w, indexPart) {
		x.rest = now.Add(max(time.Duration(x.bytes)*time.Second/indexRate, x.pause))
	}
}

// indexPart is how many packets of a round are written at a time.
const indexPart = 16

// CloseIndex writes the last round of the stream, which has all topics: no other can answer for losses that are found
// later. It reports false if it has to be called again, after Assign and Grant. docs/protocol §9.7.
func (s *Sender) CloseIndex(w *Writer) bool {
	x := &s.index
	if x.phase == indexClosed || len(s.topics.list) == 0 ||
		s.stream.Lead() == 0 && !w.Pending() && len(s.members.list) == 0 {
		return true
	}
	if x.phase != indexIdle && !x.last && !x.write(s, w, noParts) { // a round in progress
		return false
	}
	if x.phase == indexIdle {
		if x.open(w, wire.IndexAll, 0, nil) {
			x.last, x.all = true, true
		}
		return false
	}
	if x.write(s, w, noParts) {
		x.phase = indexClosed
	}
	return x.phase == indexClosed
}

const noParts = 1 << 62

// beginRound begins a round for all waiting questions, or as many as fit. It reports false if there is no room.
func (s *Sender) beginRound(w *Writer) bool {
	x := &s.index
	room := (s.stream.PacketSize() - wire.DataHeaderLen - wire.RunHeaderLen - wire.IndexHeaderLen) / wire.IndexEntryLen
	since, marks := uint64(wire.MaxSeq), wire.IndexMarks(0)
	var answered []*member
	x.only, x.buf = x.only[:0], x.buf[:0]
	for _, m := range s.members.list {
		if !m.asksIndex() || len(answered)+len(x.strangers) == room {
			continue
		}
		answered = append(answered, m)
		since = min(since, m.index.question.since)
		if !m.listsAll() {
			marks = wire.IndexAll
		}
		x.buf = wire.AppendAnswer(x.buf, m.m.ID, m.index.question.number)
		for _, id := range m.topics {
			if t := s.topics.byID[id]; t != nil {
				x.only = append(x.only, t)
			}
		}
	}
	for _, q := range x.strangers {
		marks, since = wire.IndexAll, min(since, q.since)
		x.buf = wire.AppendAnswer(x.buf, q.id, q.number)
	}
	if len(x.buf) == 0 {
		x.asked = reliable.Never // the members have left
		return false
	}
	if !x.open(w, marks, since, x.buf) {
		return false
	}
	for _, m := range answered {
		m.index.answered = m.index.question.number
	}
	if x.pause = min(2*x.pause, maxIndexPause); x.asked > x.rest.Add(x.pause) {
		x.pause = indexPause
	}
	x.asked, x.strangers = reliable.Never, nil
	x.all = marks&wire.IndexAll != 0
	for _, m := range s.members.list {
		if m.asksIndex() {
			x.asked = 0 // in the next round
		}
	}
	return true
}

// open writes the run that begins a round. It reports false if there is no room.
func (x *indexer) open(w *Writer, marks wire.IndexMarks, since uint64, answers []byte) bool {
	if !w.index(wire.IndexBegins|marks, since, answers) {
		return false
	}
	x.phase, x.begun, x.since, x.bytes = indexBegun, w.Begun(), since, 0
	return true
}

// write writes up to parts packets of the round. It reports whether the round is complete. The topics are chosen only
// when the run that begins it has a sequence: then Topic.last counts all messages before it.
func (x *indexer) write(s *Sender, w *Writer, parts uint64) bool {
	if x.phase == indexBegun {
		if w.Packets.Assigned() < x.begun {
			return false
		}
		x.phase, x.todo = indexWrites, s.topicsSince(x)
	}
	for first := w.Begun(); len(x.todo) > 0; x.todo = x.todo[1:] {
		t := x.todo[0]
		if w.Begun()-first >= parts || !w.name(t) {
			return false
		}
		w.keepPlain()
		x.bytes += wire.RunHeaderLen + len(t.Name)
	}
	if x.buf = x.buf[:0]; s.topics.floor > x.since {
		x.buf = wire.AppendAnswer(x.buf, s.topics.floor, 0)
	}
	if !w.index(wire.IndexEnds, uint64(len(s.topics.list)), x.buf) {
		return false
	}
	s.stats.IndexRounds++
	x.phase, x.todo = indexIdle, nil
	return true
}

// topicsSince returns the topics of a round: with messages, or the first topic run, from sequence since on; since 0 all
// topics.
func (s *Sender) topicsSince(x *indexer) (topics []*Topic) {
	from := s.topics.list
	if !x.all {
		from = x.only
	}
	for _, t := range from {
		if t.last >= x.since && (x.all || !slices.Contains(topics, t)) {
			topics = append(topics, t)
		}
	}
	return topics
}

// index adds an index run to the open packet, or to the next one. It reports false if there is no room.
func (w *Writer) index(marks wire.IndexMarks, number uint64, answers []byte) bool {
	n := wire.RunHeaderLen + wire.IndexHeaderLen + len(answers)
	if !w.openRun(n) {
		return false
	}
	wire.PutIndexRun(w.packet[w.off:w.off+n], marks, number, answers)
	w.keepPlain()
	w.off += n
	w.endTail()
	return true
}

// openRun makes room for a run of n bytes, header included, that no message can continue.
func (w *Writer) openRun(n int) bool {
	if w.packet == nil || w.off+n > w.size {
		if !w.nextPacket() {
			return false
		}
	}
	w.endRun()
	w.packet = w.packet[:w.size]
	return true
}

// keepPlain leaves the open packet as it is: any receiver must be able to read it.
func (w *Writer) keepPlain() {
	if at := w.Packets.Closed(); !slices.Contains(w.plain, at) {
		w.plain = append(w.plain, at)
	}
}
