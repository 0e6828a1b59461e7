package sim

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/engine"
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

// owned reports whether each subscription has a receiver of its own.
func (s *subscriber) owned() bool { return s.o.FromWindow || s.o.FromState }

// from returns where the subscriptions begin.
func (s *subscriber) from() engine.From {
	f := engine.From{State: s.o.FromState, Window: s.o.FromWindow}
	if s.o.From == 0 {
		return f
	}
	f.Positions = engine.NewPositions()
	for _, p := range s.sim.publishers {
		for life := range p.o.Lives {
			of := p.instance(life)
			for i, name := range topicNames {
				f.Positions.Set(of, engine.Position{Topic: name, Next: s.wantedFrom(of, allTopicIDs[i]), Gone: true})
			}
		}
	}
	return f
}

// numbered reports whether the feed's topics begin with a given message number.
func (f *feed) numbered() bool { return f.r.sub.o.From > 0 && f.t != nil && !f.x.st.Continued() }

// wantedFrom returns the number of the first wanted message of a topic, near From: each topic of a
// stream has another one.
func (s *subscriber) wantedFrom(of events.Instance, topic uint64) uint64 {
	return s.o.From - 1 + uint64(of.Publisher^of.Epoch^events.ID(topic))%32
}

// firstOf returns the first message of a topic that the feed must receive or report as lost.
func (f *feed) firstOf(topic int) uint64 {
	if f.numbered() {
		return f.r.sub.wantedFrom(f.x.st.Instance, allTopicIDs[topic])
	}
	return f.t.firstFrom(topic, f.from(topic))
}

// nextOf returns the number of topic's next message that the feed must receive or report as lost. A total may announce
// the topic while a message is being sent that began before it was wanted: the truth contains that message only when
// it is complete.
func (f *feed) nextOf(topic int) uint64 {
	tf := &f.topics[topic]
	switch {
	case !tf.begun:
		return max(f.firstOf(topic), f.firstNamed(topic))
	case tf.got == 0:
		return max(tf.next, f.firstOf(topic))
	}
	return tf.next
}

// firstNamed returns the first message that the feed must have of a topic that only patterns match, if packets with its
// name are lost, or the stream had it before.
func (f *feed) firstNamed(topic int) uint64 {
	if at := f.named(topic); at > f.from(topic) {
		return f.t.firstFrom(topic, at)
	}
	return 0
}

// beginning returns nextOf when an item with that number arrives. The first one shows at which packet a topic of a
// pattern has begun, if packets arrived while it was added, or where its name came.
func (f *feed) beginning(topic int, number uint64) uint64 {
	next, tf := f.nextOf(topic), &f.topics[topic]
	if first := f.firstOf(topic); !tf.begun && number < next {
		next = max(number, first)
	}
	if tf.added && tf.got == 0 && !f.numbered() && number < next {
		next = max(number, f.t.firstFrom(topic, max(f.x.st.Start(), f.start, tf.earliest)))
	}
	return next
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
func (s *subscriber) checkJoin(x *stream) {
	if x.t != nil && !s.o.FromState && s.o.From == 0 && x.st.Begun() && x.st.Start() > x.t.trail {
		s.sim.fail("subscriber %d: stream %v.%d begins with packet %d, but the window with %d", s.number, x.st.Publisher, x.st.Epoch, x.st.Start(), x.t.trail)
	}
}

// begun records that the stream begins later than at first assumed: the publisher must have announced that it no longer
// has the packets before.
func (s *subscriber) begun(x *stream) {
	begin := x.st.Start()
	if begin == x.begin {
		return
	}
	if s.o.From > 0 {
		s.checkFirst(x, begin)
	} else if x.t != nil && !s.o.FromState && (begin > x.t.trail || x.begin == 0) {
		s.sim.fail("subscriber %d: stream %v.%d begins with packet %d instead of %d, but the window with %d", s.number, x.st.Publisher, x.st.Epoch, begin, x.begin, x.t.trail)
	}
	x.begin = begin
}

// checkFirst checks that a stream which begins with given message numbers of its topics skips none
// of them, except for those that the publisher no longer has.
func (s *subscriber) checkFirst(x *stream, begin uint64) {
	for _, r := range s.readers {
		if r.s == nil || r.s.Err() != nil {
			continue // it was evicted, and wants nothing more
		}
		for _, f := range r.feeds {
			for i := range f.topics {
				if f.x != x || f.t == nil || r.s.Err() != nil || !f.wants(i) || i >= len(f.t.topics) {
					continue
				}
				n, sent := f.firstOf(i), f.t.topics[i].sent
				if n < uint64(len(sent)) && sent[n].first < begin && sent[n].first >= max(x.begin, x.t.trail) {
					f.fail("begins with packet %d, but message %d of topic %d with %d", begin, n, i, sent[n].first)
				}
			}
		}
	}
}
