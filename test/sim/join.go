package sim

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
)

// Subscribers that join late and want what publishers' windows still hold.

// joins makes some subscribers so, and lets them come at any moment.
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

// numbered reports whether the feed's topics begin with a certain message.
func (f *feed) numbered() bool { return f.sub.o.From > 0 && f.st.Begun() }

// wantedFrom is the message that a topic of a stream is to begin with, where From is given: a little behind it, for
// each has its own.
func (s *subscriber) wantedFrom(of reliable.Instance, topic uint64) uint64 {
	return s.o.From - 1 + (of.Publisher^of.Epoch^topic)%32
}

// wanted is wantedFrom, if there is such a message.
func (s *subscriber) wanted() func(of reliable.Instance, topic uint64) uint64 {
	if s.o.From == 0 {
		return nil
	}
	return s.wantedFrom
}

// beginFrom makes a topic begin with its first message that is wanted.
func (f *feed) beginFrom(id uint64) {
	if f.numbered() {
		f.r.From(id, f.sub.wantedFrom(f.st.Instance, id))
	}
}

// firstOf is the first message of a topic that the feed is to have, or to know as lost.
func (f *feed) firstOf(topic int) uint64 {
	if f.numbered() {
		return f.sub.wantedFrom(f.st.Instance, f.sub.sim.topicIDs[topic])
	}
	return f.t.firstFrom(topic, f.topics[topic].from)
}

// nextOf is the number of topic's message that the feed has to have, or to know as lost, next. A total may name the
// topic while a message is under way that had begun before it was wanted: the truth has that only when it is complete.
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

// heard takes in what the publisher says of its window.
func (t *truth) heard(b []byte) {
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

// checkJoin checks that a stream begins where the publisher's window does, or before.
func (o *output) checkJoin() {
	if o.t != nil && o.st.Begun() && o.st.Start() > o.t.trail {
		o.s.sim.fail("subscriber %d: stream %#x.%d begins with packet %d, the window with %d", o.s.number, o.st.Publisher, o.st.Epoch, o.st.Start(), o.t.trail)
	}
}

// begun notes, before the first event, that the stream begins further on than it seemed at
// first: the publisher must have said that it has the packets before no more.
func (o *output) begun() {
	begin := o.st.Start()
	if begin == o.begin {
		return
	}
	if o.s.o.From > 0 {
		o.checkSought(begin)
	} else if o.t != nil && !o.s.o.FromState && (begin > o.t.trail || o.begin == 0) {
		o.s.sim.fail("subscriber %d: stream %#x.%d begins with packet %d instead of %d, the window with %d", o.s.number, o.st.Publisher, o.st.Epoch, begin, o.begin, o.t.trail)
	}
	for _, f := range o.feeds {
		if f.consumed != o.begin {
			f.fail("has read up to %d, and the stream begins with %d", f.consumed, begin)
		}
		f.consumed = begin
		for i := range f.topics {
			f.topics[i].from = max(f.topics[i].from, begin)
		}
	}
	o.begin = begin
}

// checkSought checks that a stream which begins with certain messages of its topics begins with none of them
// left out, but those that the publisher has no more.
func (o *output) checkSought(begin uint64) {
	for _, f := range o.feeds {
		for i := range f.topics {
			if f.t == nil || !f.topics[i].wanted || i >= len(f.t.topics) {
				continue
			}
			n, sent := f.firstOf(i), f.t.topics[i].sent
			if n < uint64(len(sent)) && sent[n].first < begin && sent[n].first >= max(o.begin, o.t.trail) {
				f.fail("begins with packet %d, and message %d of topic %d with %d", begin, n, i, sent[n].first)
			}
		}
	}
}

// askTotals asks how far topics are that begin with a certain message.
func (s *subscriber) askTotals() {
	for _, st := range s.joined {
		st.WantTotals()
	}
	s.joined = s.joined[:0]
}

// asks notes a new stream.
func (s *subscriber) asks(st *reliable.Stream) {
	if s.o.From > 0 && st.Begun() {
		s.joined = append(s.joined, st)
	}
}
