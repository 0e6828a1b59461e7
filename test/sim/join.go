package sim

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Subscribers that join late and request the publishers' windows.

// joins lets some subscribers begin with the window, at any time.
func (d drawer) joins(o *Options) {
	for i := range o.Subscribers {
		s := &o.Subscribers[i]
		if !d.chance(25) {
			continue
		}
		s.FromWindow = true
		if d.chance(40) {
			s.From = 1 + uint64(d.between(0, 100))
		}
		if d.chance(60) {
			s.Stays[0].After = d.time(10*time.Microsecond, o.Faults)
		}
	}
}

// numbered reports whether the feed's topics begin with a given message number.
func (f *feed) numbered() bool { return f.sub.o.From > 0 && f.st.Begun() }

// wantedFrom returns the number of the first wanted message of a topic, near From: each topic of a
// stream has another one.
func (s *subscriber) wantedFrom(of events.Instance, topic uint64) uint64 {
	return s.o.From - 1 + uint64(of.Publisher^of.Epoch^events.ID(topic))%32
}

// wanted returns wantedFrom, nil without Subscriber.From.
func (s *subscriber) wanted() func(of events.Instance, topic uint64) uint64 {
	if s.o.From == 0 {
		return nil
	}
	return s.wantedFrom
}

// beginFrom makes a topic begin with its first wanted message.
func (f *feed) beginFrom(id uint64) {
	if f.numbered() {
		f.r.From(id, f.sub.wantedFrom(f.st.Instance, id))
	}
}

// firstOf returns the first message of a topic that the feed must receive or report as lost.
func (f *feed) firstOf(topic int) uint64 {
	if f.numbered() {
		return f.sub.wantedFrom(f.st.Instance, f.sub.sim.topicIDs[topic])
	}
	return f.t.firstFrom(topic, f.topics[topic].from)
}

// nextOf returns the number of topic's next message that the feed must receive or report as lost. A total may announce
// the topic while a message is being sent that began before it was wanted: the truth contains that message only when
// it is complete.
func (f *feed) nextOf(topic int) uint64 {
	tf := &f.topics[topic]
	switch {
	case !tf.begun:
		return f.firstOf(topic)
	case tf.got == 0:
		return max(tf.next, f.firstOf(topic))
	}
	return tf.next
}

// recordTrail records the trail of the window that the publisher announces.
func (t *truth) recordTrail(b []byte) {
	switch wire.Type(b[3]) {
	case wire.TypeHeartbeat:
		if hb, err := wire.ParseHeartbeat(b); err == nil {
			t.trail = max(t.trail, hb.Trail)
		}
	case wire.TypeGone:
		if n, err := wire.ParseRanges(b); err == nil {
			for first, count, ok := n.Next(); ok; first, count, ok = n.Next() {
				t.trail = max(t.trail, first+count)
			}
		}
	}
}

// checkJoin checks that a stream begins no later than the publisher's window.
func (o *output) checkJoin() {
	if o.t != nil && o.st.Begun() && o.st.Start() > o.t.trail {
		o.s.sim.fail("subscriber %d: stream %v.%d begins with packet %d, but the window with %d", o.s.number, o.st.Publisher, o.st.Epoch, o.st.Start(), o.t.trail)
	}
}

// begun records, before the first event, that the stream begins later than at first assumed: the
// publisher must have announced that it no longer has the packets before.
func (o *output) begun() {
	begin := o.st.Start()
	if begin == o.begin {
		return
	}
	if o.s.o.From > 0 {
		o.checkFirst(begin)
	} else if o.t != nil && !o.s.o.FromState && (begin > o.t.trail || o.begin == 0) {
		o.s.sim.fail("subscriber %d: stream %v.%d begins with packet %d instead of %d, but the window with %d", o.s.number, o.st.Publisher, o.st.Epoch, begin, o.begin, o.t.trail)
	}
	for _, f := range o.feeds {
		if f.consumed != o.begin {
			f.fail("has read up to %d, but the stream begins with %d", f.consumed, begin)
		}
		f.consumed = begin
		for i := range f.topics {
			f.topics[i].from = max(f.topics[i].from, begin)
		}
	}
	o.begin = begin
}

// checkFirst checks that a stream which begins with given message numbers of its topics skips none
// of them, except for those that the publisher no longer has.
func (o *output) checkFirst(begin uint64) {
	for _, f := range o.feeds {
		for i := range f.topics {
			if f.t == nil || !f.topics[i].wanted || i >= len(f.t.topics) {
				continue
			}
			n, sent := f.firstOf(i), f.t.topics[i].sent
			if n < uint64(len(sent)) && sent[n].first < begin && sent[n].first >= max(o.begin, o.t.trail) {
				f.fail("begins with packet %d, but message %d of topic %d with %d", begin, n, i, sent[n].first)
			}
		}
	}
}
