package topics

import (
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// readerTrust is what a Reader delivers of its publisher.
type readerTrust struct {
	now       func() reliable.TopicTrust // nil: every publisher may publish on every topic
	as        reliable.TopicTrust        // what the tracks were judged by
	publisher uint64
}

// Trust has the reader deliver nothing of topics on which its publisher may not publish: it is counted
// and reported, and is no gap. now gives what holds at present: it is called for each packet.
func (r *Reader) Trust(publisher uint64, now func() reliable.TopicTrust) {
	r.trust = readerTrust{now: now, as: now(), publisher: publisher}
}

// rejudge judges all topics if other trust holds now.
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

// judge decides whether a topic is refused. One that is begins anew when it is not any more, with the
// message that comes first.
func (r *Reader) judge(t *Track) {
	was := t.refused
	t.refused = r.trust.now != nil && !r.trust.as.May(r.trust.publisher, t.Name)
	if was && !t.refused {
		t.since = r.losses
	}
	if t.refused && !was {
		r.discard(t.ID)
		t.known, t.unnamed, t.begun, t.foreign, t.from, t.refusalSent = false, events.CauseNone, false, 0, 0, false
	}
}

// refuse counts a run of a topic that is refused, and reports that there are some.
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
