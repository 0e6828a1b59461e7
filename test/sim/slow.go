package sim

import (
	"encoding/binary"
	"slices"

	"github.com/fanfaremq/fanfare/internal/ring"
	"github.com/fanfaremq/fanfare/internal/slow"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// Readers that are slow and hold up no publisher: they continue with the newest packet, are
// evicted, or keep the newest message of each key.

// toNewest is where a feed of slow.Latest goes on.
type toNewest struct {
	newest uint64 // position of the latest packet with the beginning of a message
	passed bool   // it was overtaken beyond that
}

// begins notes that a packet, which is appended next, has the beginning of a message that the feed wants.
func (f *feed) begins(packet []byte) {
	if f.o.Slow.Kind != slow.Latest {
		return
	}
	for runs := reliable.PacketData(packet); ; {
		run, rest, ok := wire.NextRun(runs)
		if !ok {
			return
		}
		runs = rest
		if run.Kind == wire.RunState || !f.wants(run.Topic) {
			continue
		}
		if run.Kind == wire.RunFragment {
			if x, err := wire.ParseFragment(run.Body); err != nil || x.Offset > 0 {
				continue
			}
		}
		f.newest = f.out.log.Head()
		return
	}
}

// late is what is to be done about the feed now.
func (f *feed) late() slow.Act {
	return f.o.Slow.Act(f.c.Lag(), f.o.Slow.Bound(f.st.Span()), f.c.Overtaken())
}

// jump goes on with the newest packet if the feed is too far behind.
func (f *feed) jump() {
	if f.late() == slow.Jump {
		f.passed = f.c.Overtaken() && f.newest <= f.c.Position()
		f.sub.sim.report.Jumps++
		f.c.Jump(f.newest)
	}
}

// checkJump checks that a feed which has left packets out before it stands where it
// should: no message begins behind that, as far as the stream has come.
func (f *feed) checkJump(it *ring.Item) {
	if f.t == nil || f.o.Slow.Kind != slow.Latest || f.c.Overtaken() || f.passed || f.out.unnamed {
		return
	}
	for i := range min(len(f.topics), len(f.t.topics)) {
		for _, m := range f.t.topics[i].sent {
			if f.topics[i].wanted && m.first >= f.topics[i].from && m.first > it.Seq && m.first < f.st.Next() &&
				!f.out.neverCame(m.first) {
				f.fail("jumped to packet %d, but a message of topic %d begins in %d, the stream is at %d", it.Seq, i, m.first, f.st.Next())
				return
			}
		}
	}
}

// neverCame reports whether a packet never came.
func (o *output) neverCame(seq uint64) bool {
	return slices.ContainsFunc(o.lost, func(h hole) bool { return h.first <= seq && seq < h.end })
}

// checkNewest checks that at the end a feed that continues with the newest packet has the message that was begun last,
// unless that is a large part of the window. Packets without a wanted topic must not follow it, because that fills the
// window, too, nor the beginning of a message that is never completed, nor state for others.
func (f *feed) checkNewest() {
	if f.o.Slow.Kind != slow.Latest || f.unknown || len(f.sub.o.Patterns) > 0 || !f.sub.final ||
		len(f.topics) < len(f.t.topics) || f.t.killed || f.sub.sim.abandons() || f.sub.sim.roundsOf(f.t) {
		return
	}
	topic, last := -1, message{}
	number := uint64(0)
	for i := range min(len(f.topics), len(f.t.topics)) {
		for n, m := range f.t.topics[i].sent {
			// a long one begins behind others of its packet
			if m.last < f.consumed && (topic < 0 || m.first > last.first || m.first == last.first && m.last >= last.last) {
				topic, number, last = i, uint64(n), m
			}
		}
	}
	if topic < 0 || last.last-last.first > uint64(f.st.Span()/4) {
		return
	}
	for seq := last.first; seq <= last.last; seq++ {
		if f.out.neverCame(seq) {
			return
		}
	}
	for _, h := range f.holes {
		if h.cause == events.CauseSlowConsumer && h.first <= last.last && last.first < h.end {
			f.fail("topic %d: the newest message %d, of packets %d to %d, was left out", topic, number, last.first, last.last)
		}
	}
}

// roundsOf reports whether rounds of state may be in a stream, which others have asked for.
func (s *sim) roundsOf(t *truth) bool {
	return t.o.Keeps.State > 0 && slices.ContainsFunc(s.o.Subscribers, func(x Subscriber) bool { return x.FromState })
}

// abandons reports whether publishers may begin messages that they do not complete.
func (s *sim) abandons() bool {
	return slices.ContainsFunc(s.o.Publishers, func(p Publisher) bool { return p.Abandon > 0 })
}

// tendSlow ends readers that are too far behind, and lets those that keep the newest messages take one each.
func (s *subscriber) tendSlow() {
	for _, f := range s.feeds {
		f.takeKept()
		if f.c == nil || f.over || f.late() != slow.End {
			continue
		}
		s.sim.report.Evicted++
		s.evicted[f.reader-1] = true
		for _, x := range s.feeds { // its other streams, too
			if x.reader == f.reader && x.c != nil {
				if x.leased {
					x.leased = false
					x.c.Return()
				}
				x.over = true
				x.out.detach(x)
			}
		}
	}
}

// kept is the newest messages of a feed, by key.
type kept struct {
	store *slow.Conflation[keptMessage]
	seen  map[keptKey]uint64 // numbers of what was taken last
	took  uint64
	put   uint64
}

type keptKey struct {
	topic int
	key   uint64
}

type keptMessage struct {
	keptKey
	number uint64
}

// keep puts a message into what the feed keeps.
func (f *feed) keep(topic int, number uint64) {
	if f.o.Conflate == 0 {
		return
	}
	if f.kept == nil {
		f.kept = &kept{store: slow.NewConflation[keptMessage](slow.Limits{Keys: f.o.Conflate * MaxTopics, Bytes: 1 << 20}),
			seen: make(map[keptKey]uint64)}
	}
	m := keptMessage{keptKey{topic, number % uint64(f.o.Conflate)}, number}
	key := binary.LittleEndian.AppendUint64(nil, m.key<<8|uint64(topic))
	if !f.kept.store.Put(key, key, m) {
		f.fail("no room for message %d of topic %d: %d wait", number, topic, f.kept.store.Waiting())
	}
	f.kept.put++
}

// takeKept takes what has waited longest.
func (f *feed) takeKept() bool {
	if f.kept == nil {
		return false
	}
	f.kept.store.Return()
	m, _, ok := f.kept.store.Take()
	if !ok {
		return false
	}
	if last, before := f.kept.seen[m.keptKey]; before && last >= m.number {
		f.fail("topic %d: message %d of key %d after %d", m.topic, m.number, m.key, last)
	}
	f.kept.seen[m.keptKey] = m.number
	f.kept.took++
	return true
}

// checkKept checks that at the end each key has its last message, unless that was reported as
// lost, and that all others were replaced.
func (f *feed) checkKept() {
	if f.kept == nil {
		return
	}
	for f.takeKept() {
	}
	replaced := f.kept.store.Replaced()
	f.sub.sim.report.Replaced += replaced
	if f.kept.took+replaced != f.kept.put {
		f.fail("%d messages were taken and %d replaced, of %d", f.kept.took, replaced, f.kept.put)
	}
	if f.unnamed {
		return // messages of a topic without a name are missing, as was reported
	}
	for i := range min(len(f.topics), len(f.t.topics)) {
		if !f.topics[i].begun {
			continue
		}
		last := make(map[uint64]uint64)
		for n := max(f.firstOf(i), f.t.firstFrom(i, f.topics[i].from), f.topics[i].state.number); n < f.topics[i].next; n++ {
			if m := &f.t.topics[i].sent[n]; m.size <= f.sub.maxMessage() && !f.holed(m.first, m.last) {
				last[n%uint64(f.o.Conflate)] = n
			}
		}
		for key, n := range last {
			if got, ok := f.kept.seen[keptKey{i, key}]; !ok || got < n {
				f.fail("topic %d: key %d ends with message %d, its last is %d", i, key, got, n)
			}
		}
	}
}
