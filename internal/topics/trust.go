package topics

import (
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// TopicTrust says which keys may publish on which topics. It is immutable. docs/protocol §29.8.
type TopicTrust interface {
	// May reports whether a publisher may publish on a topic.
	May(publisher events.ID, topic string) bool
}

// readerTrust decides which topics of its publisher a Reader delivers.
type readerTrust struct {
	now       func() TopicTrust // nil: the publisher may publish on every topic
	as        TopicTrust        // trust that the tracks were judged by
	publisher events.ID
}

// Trust makes the reader deliver nothing of topics that its publisher is not trusted with: their messages are counted
// and reported, and are no gap. now returns the current trust. It is called for each packet.
func (r *Reader) Trust(publisher events.ID, now func() TopicTrust) {
	r.trust = readerTrust{now: now, as: now(), publisher: publisher}
}

// rejudge judges all topics again if the trust has changed.
func (r *Reader) rejudge() {
	if r.trust.now != nil {
		r.rejudgeAll()
	}
}

func (r *Reader) rejudgeAll() {
	x := &r.trust
	if now := x.now(); now != x.as {
		x.as = now
		r.topics.All(func(_ uint64, t *Track) { r.judge(t) })
	}
}

// judge decides whether a topic is refused. One that is no longer refused begins with its next message.
func (r *Reader) judge(t *Track) {
	was := t.refused
	t.refused = r.trust.now != nil && !r.trust.as.May(r.trust.publisher, t.Name)
	if was && !t.refused {
		t.losses = r.losses
	}
	if t.refused && !was {
		r.discard(t.ID)
		t.known, t.from, t.refusalSent = false, 0, false
	}
}

// refuse counts a run of a refused topic, and reports the topic once.
func (r *Reader) refuse(t *Track, run *wire.Run) {
	if r.tally != nil {
		r.tally.Refused(int(run.Messages()))
	}
	if t.refusalSent {
		return
	}
	t.refusalSent = true
	t.refusals++
	r.faults.FaultCounts[events.FaultTopic]++
	if r.faults.emit != nil {
		r.faults.emit(&events.FaultError{Topic: t.Name, Fault: events.FaultTopic, Count: t.refusals})
	}
}

// readerFaults counts the faults that a Reader finds.
type readerFaults struct {
	events.FaultCounts
	emit     func(*events.FaultError)          // set by OnFault; nil: faults are only counted
	collides func(*events.TopicCollisionError) // set by OnCollision; may be nil
}

// OnFault makes the reader call emit for the 1st, 2nd, 4th, 8th … fault of each kind, within Next or Open. The error
// names no publisher.
func (r *Reader) OnFault(emit func(*events.FaultError)) { r.faults.emit = emit }

// OnCollision makes the reader call f, within Next, when it drops a topic because the publisher uses the topic's id for
// another name. The error names no publisher.
func (r *Reader) OnCollision(f func(*events.TopicCollisionError)) { r.faults.collides = f }

func (r *Reader) fault(kind events.Fault, t *Track) {
	if n, emit := r.faults.Add(kind); emit && r.faults.emit != nil {
		r.faults.emit(&events.FaultError{Topic: t.Name, Fault: kind, Count: n})
	}
}

// Tally counts what a Reader does not deliver.
type Tally interface {
	// Dropped counts a run, or the rest of one, that does not parse or repeats message numbers.
	Dropped()
	// Unwanted counts a run, with its bytes, of a topic that the reader does not want.
	Unwanted(topic uint64, bytes int)
	// Refused counts messages of topics that the publisher is not trusted with.
	Refused(messages int)
}

// Count makes the reader report to t what it does not deliver after this call.
func (r *Reader) Count(t Tally) { r.tally = t }

func (r *Reader) drop() {
	if r.tally != nil {
		r.tally.Dropped()
	}
}
