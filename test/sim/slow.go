package sim

import (
	"encoding/binary"
	"slices"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/internal/slow"
	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/reliable"
)

// Slow readers that do not block the publisher: they jump to the newest packet, are evicted, or
// keep the newest message of each key.

// checkNewest checks that at the end a reader that jumps to the newest packet has the newest message,
// unless that is a large part of the window. The window may also be filled by packets without a wanted
// topic, by the beginning of a message that is never completed, or by state for others.
func (f *feed) checkNewest() {
	s := f.r.sub
	if f.r.options.Slow.Kind != slow.Latest || f.unknown || len(s.o.Patterns) > 0 || !s.final ||
		s.o.Topics < len(f.t.topics) || f.t.killed || s.sim.abandons() || s.sim.roundsOf(f.t) {
		return
	}
	topic, last, number := -1, message{}, uint64(0)
	for i := range f.t.topics {
		for n, m := range f.t.topics[i].sent {
			// a long message begins after others in its packet
			if m.last < f.x.st.Next() && (topic < 0 || m.first > last.first || m.first == last.first && m.last >= last.last) {
				topic, number, last = i, uint64(n), m
			}
		}
	}
	if topic < 0 || last.last-last.first > uint64(f.x.st.Span()/4) || !f.received(&last) ||
		last.first < f.from(topic) || number < f.firstOf(topic) {
		return
	}
	if tf := &f.topics[topic]; tf.last != number+1 {
		f.fail("topic %d: the newest message %d, in packets %d to %d, was skipped", topic, number, last.first, last.last)
	}
}

// roundsOf reports whether a stream may contain rounds of state, requested by others.
func (s *sim) roundsOf(t *truth) bool {
	return t.o.StateOptions.State > 0 &&
		slices.ContainsFunc(s.o.Subscribers, func(x Subscriber) bool { return x.FromState })
}

// abandons reports whether publishers may begin messages and not complete them.
func (s *sim) abandons() bool {
	return slices.ContainsFunc(s.o.Publishers, func(p Publisher) bool { return p.Abandon > 0 })
}

// kept are the newest messages that a feed has delivered, by key.
type kept struct {
	seen map[keptKey]uint64 // number of the last message
}

type keptKey struct {
	topic int
	key   uint64
}

// conflationKey returns the key function for so many keys in each topic of each publisher.
func conflationKey(keys int) engine.ConflationKey {
	return func(buf []byte, from *reliable.Origin, _ *topics.Track, number uint64, _ []byte) []byte {
		buf = binary.LittleEndian.AppendUint64(buf, uint64(from.Publisher))
		buf = binary.LittleEndian.AppendUint64(buf, uint64(from.Epoch))
		return binary.LittleEndian.AppendUint64(buf, number%uint64(keys))
	}
}

// keep checks a message of a reader that conflates.
func (f *feed) keep(d *engine.Delivery) {
	i := topicIndex(d.Topic)
	if d.State != reliable.StateOfNone { // records of one key replace each other, too
		if i >= 0 && d.State == reliable.StateEnd {
			f.topics[i].state.number = d.Number
		}
		return
	}
	if i < 0 || i >= len(f.t.topics) || !f.wants(i) && !f.r.adding.Wild() {
		f.fail("message of topic %d, which is not subscribed", i)
		return
	}
	if d.Gap() {
		f.slow(d)
		f.lost(i, d.Number, d.Number+d.Lost, d.Cause)
		return
	}
	if !f.content(i, d) {
		return
	}
	if f.kept == nil {
		f.kept = &kept{seen: make(map[keptKey]uint64)}
	}
	k := keptKey{i, d.Number % uint64(f.r.options.Conflate)}
	if last, before := f.kept.seen[k]; before && last >= d.Number {
		f.fail("topic %d: message %d of key %d is not newer than %d", i, d.Number, k.key, last)
	}
	f.kept.seen[k] = d.Number
	f.topics[i].begun = true
	f.request(d, &f.t.topics[i].sent[d.Number])
}

// checkKept checks that at the end each key has its last message, unless that was lost.
func (f *feed) checkKept() {
	if f.kept == nil || f.overtaken {
		return
	}
	for i := range f.t.topics {
		if !f.topics[i].begun {
			continue
		}
		last := make(map[uint64]uint64)
		n := max(f.firstOf(i), f.t.firstFrom(i, f.from(i)), f.topics[i].state.number)
		for ; n < f.t.before(i, f.x.st.Next()); n++ {
			if m := &f.t.topics[i].sent[n]; f.received(m) && m.last >= f.named(i) {
				last[n%uint64(f.r.options.Conflate)] = n
			}
		}
		for key, n := range last {
			if got, ok := f.kept.seen[keptKey{i, key}]; !ok || got < n {
				f.fail("topic %d: key %d ends with message %d, but its last is %d", i, key, got, n)
			}
		}
	}
}
