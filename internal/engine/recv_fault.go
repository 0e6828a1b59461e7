package engine

import (
	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// Publishers that break the protocol (events.Fault).

// faultNotes decides which faults of a group's publishers are logged and emitted, because several subscriptions find
// the same ones. Loop only.
type faultNotes struct {
	reported map[faultKey]uint64 // Count of the latest error
}

type faultKey struct {
	publisher events.ID
	epoch     events.ID
	fault     events.Fault
	topic     string // with FaultTopic only
}

// faultsKept bounds the memory that forged packets can take. Beyond it some faults are reported again.
const faultsKept = 1024

// due reports whether err is newer than the last report.
func (f *faultNotes) due(err *events.FaultError) bool {
	key := faultKey{err.Publisher, err.Epoch, err.Fault, ""}
	if err.Fault == events.FaultTopic {
		key.topic = err.Topic
	}
	if err.Count <= f.reported[key] {
		return false
	}
	if f.reported == nil || len(f.reported) >= faultsKept {
		f.reported = make(map[faultKey]uint64)
	}
	f.reported[key] = err.Count
	return true
}

// malformed reports a packet that does not parse. Any reader of the stream may miss messages.
func (g *group) malformed(st *reliable.Stream, err *events.FaultError) {
	if !g.wanting() {
		return
	}
	e := g.faulted(st, err)
	for _, s := range g.subs.List() {
		s.notify(e)
	}
	g.announce(e)
}

// faulted logs a fault and emits its event.
func (g *group) faulted(st *reliable.Stream, err *events.FaultError) events.Event {
	e := g.event(events.PublisherFault, st)
	e.Err = err
	if g.faults.due(err) {
		line := &report.PublisherFault
		if err.Fault == events.FaultTopic {
			line = &report.TopicRefused
		}
		g.l.say(line, "publisher", st.Publisher, "fault", err.Fault, "topic", err.Topic, "times", err.Count, "group", g.address)
		g.l.event(e)
	}
	return e
}

// reportFaults makes the reader for handlers report faults.
func (g *group) reportFaults(st *reliable.Stream, rd *topics.Reader) {
	rd.OnFault(func(err *events.FaultError) {
		err.Publisher, err.Epoch = st.Publisher, st.Epoch
		g.announce(g.faulted(st, err))
	})
	rd.OnCollision(func(err *events.TopicCollisionError) {
		err.Publisher = st.Publisher
		for _, s := range g.topics[uint64(err.ID)].handlers.List() {
			s.other(&Delivery{Err: err})
		}
	})
}

// reportFaults makes the feed's reader report faults: to the subscription at once, in the log and as an event soon.
func (f *feed) reportFaults(s *Subscription) {
	f.rd.OnFault(func(err *events.FaultError) {
		err.Publisher, err.Epoch = f.st.Publisher, f.st.Epoch
		e := f.event(events.PublisherFault)
		e.Err = err
		s.notify(*e)
		s.l.post(func() { f.g.faulted(f.st, err) })
	})
	f.rd.OnCollision(func(err *events.TopicCollisionError) {
		err.Publisher = f.st.Publisher
		f.collisions = append(f.collisions, err)
	})
}
