package engine

import (
	"github.com/fanfaremq/fanfare/internal/logline"
	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// Publishers that do not keep the rules of the protocol (events.Fault).

// faultNotes decides which faults of a group's publishers the log and the bus are told
// of: several subscriptions find the same ones. Loop only.
type faultNotes struct {
	told map[faultKey]uint64 // Count of the latest
}

type faultKey struct {
	publisher events.PublisherID
	epoch     uint64
	fault     events.Fault
	topic     string // of FaultTopic
}

// faultsKept bounds what strangers can make us remember. Beyond it some are told again.
const faultsKept = 1024

// tell reports whether err says more than was told before.
func (f *faultNotes) tell(err *events.FaultError) bool {
	key := faultKey{err.Publisher, err.Epoch, err.Fault, ""}
	if err.Fault == events.FaultTopic {
		key.topic = err.Topic
	}
	if err.Count <= f.told[key] {
		return false
	}
	if f.told == nil || len(f.told) >= faultsKept {
		f.told = make(map[faultKey]uint64)
	}
	f.told[key] = err.Count
	return true
}

// malformed tells of a packet that does not parse. All who read the stream may miss what
// was in it.
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

// faulted tells the log and the bus of a fault.
func (g *group) faulted(st *reliable.Stream, err *events.FaultError) events.Event {
	e := g.event(events.PublisherFault, st)
	e.Err = err
	if g.faults.tell(err) {
		line := &logline.PublisherFault
		if err.Fault == events.FaultTopic {
			line = &logline.TopicRefused
		}
		g.l.say(line, "publisher", id(st.Publisher), "fault", err.Fault, "topic", err.Topic, "times", err.Count, "group", g.address)
		g.l.event(e)
	}
	return e
}

// tellFaults makes the reader for handlers tell of faults.
func (g *group) tellFaults(st *reliable.Stream, rd *topics.Reader) {
	rd.OnFault(func(err *events.FaultError) {
		err.Publisher, err.Epoch = events.PublisherID(st.Publisher), st.Epoch
		g.announce(g.faulted(st, err))
	})
}

// tellFaults makes the feed's reader tell of faults: the subscription at once, the log
// and the bus soon.
func (f *feed) tellFaults(s *Subscription) {
	f.rd.OnFault(func(err *events.FaultError) {
		err.Publisher, err.Epoch = events.PublisherID(f.st.Publisher), f.st.Epoch
		e := f.event(events.PublisherFault)
		e.Err = err
		s.notify(*e)
		s.l.post(func() { f.g.faulted(f.st, err) })
	})
}
