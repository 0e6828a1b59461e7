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

// Slow readers that do not block the publisher: they jump to the newest packet, are evicted, or
// keep the newest message of each key.

// newestState is where a feed with slow.Latest continues.
type newestState struct {
	newest uint64 // position of the latest packet in which a message begins
	passed bool   // the cursor was overtaken beyond that
}

// begins records that the packet to be appended contains the beginning of a wanted message.
func (f *feed) begins(packet []byte) {
	if f.options.Slow.Kind != slow.Latest {
		return
	}
	for runs := reliable.PacketData(packet); ; {
		run, rest, ok := wire.NextRun(runs)
		if !ok {
			return
		}
		runs = rest
		if run.Kind >= wire.RunTopic || !f.wants(run.Topic) {
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

// late returns what to do about the feed now.
func (f *feed) late() slow.Act {
	return f.options.Slow.Act(f.c.Lag(), f.options.Slow.Bound(f.st.Span()), f.c.Overtaken())
}

// jump continues with the newest packet if the feed is too far behind.
func (f *feed) jump() {
	if f.late() == slow.Jump {
		f.passed = f.c.Overtaken() && f.newest <= f.c.Position()
		f.sub.sim.report.Jumps++
		f.c.Jump(f.newest)
	}
}

// checkJump checks that a feed which has skipped packets is at the right position: no message
// begins after it, up to the end of the stream.
func (f *feed) checkJump(it *ring.Item) {
	if f.t == nil || f.options.Slow.Kind != slow.Latest || f.c.Overtaken() || f.passed {
		return
	}
	for i := range min(len(f.topics), len(f.t.topics)) {
		for _, m := range f.t.topics[i].sent {
			if f.topics[i].wanted && f.wants(f.t.topics[i].id) && m.first >= max(f.topics[i].from, f.topics[i].named) && m.first > it.Seq && m.first < f.st.Next() &&
				!f.out.neverArrived(m.first) {
				f.fail("jumped to packet %d, but a message of topic %d begins in %d; the stream is at %d", it.Seq, i, m.first, f.st.Next())
				return
			}
		}
	}
}

// neverArrived reports whether a packet never arrived.
func (o *output) neverArrived(seq uint64) bool {
	return slices.ContainsFunc(o.lost, func(h hole) bool { return h.first <= seq && seq < h.end })
}

// checkNewest checks that at the end a feed which jumps to the newest packet has the newest message,
// unless that is a large part of the window. The window may also be filled by packets without a wanted
// topic, by the beginning of a message that is never completed, or by state for others.
func (f *feed) checkNewest() {
	if f.options.Slow.Kind != slow.Latest || f.unknown || len(f.sub.o.Patterns) > 0 || !f.sub.final ||
		len(f.topics) < len(f.t.topics) || f.t.killed || f.sub.sim.abandons() || f.sub.sim.roundsOf(f.t) {
		return
	}
	topic, last := -1, message{}
	number := uint64(0)
	for i := range min(len(f.topics), len(f.t.topics)) {
		for n, m := range f.t.topics[i].sent {
			// a long message begins after others in its packet
			if m.last < f.consumed && (topic < 0 || m.first > last.first || m.first == last.first && m.last >= last.last) {
				topic, number, last = i, uint64(n), m
			}
		}
	}
	if topic < 0 || last.last-last.first > uint64(f.st.Span()/4) {
		return
	}
	for seq := last.first; seq <= last.last; seq++ {
		if f.out.neverArrived(seq) {
			return
		}
	}
	for _, h := range f.holes {
		if h.cause == events.CauseSlowConsumer && h.first <= last.last && last.first < h.end {
			f.fail("topic %d: the newest message %d, in packets %d to %d, was skipped", topic, number, last.first, last.last)
		}
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

// updateSlow evicts readers that are too far behind, and lets those that conflate process one message each.
func (s *subscriber) updateSlow() {
	for _, f := range s.feeds {
		f.takeKept()
		if f.c == nil || f.over || f.late() != slow.End {
			continue
		}
		s.sim.report.Evicted++
		s.evicted[f.reader-1] = true
		for _, x := range s.feeds { // of all streams
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

// kept are the newest messages of a feed, by key.
type kept struct {
	store *slow.Conflation[keptMessage]
	seen  map[keptKey]uint64 // number of the last processed message
	taken uint64
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

// keep stores a message in the feed's conflation.
func (f *feed) keep(topic int, number uint64) {
	if f.options.Conflate == 0 {
		return
	}
	if f.kept == nil {
		limits := slow.Limits{Keys: f.options.Conflate * MaxTopics, Bytes: 1 << 20}
		f.kept = &kept{store: slow.NewConflation[keptMessage](limits), seen: make(map[keptKey]uint64)}
	}
	m := keptMessage{keptKey{topic, number % uint64(f.options.Conflate)}, number}
	key := binary.LittleEndian.AppendUint64(nil, m.key<<8|uint64(topic))
	if !f.kept.store.Put(key, key, m) {
		f.fail("no room for message %d of topic %d: %d are waiting", number, topic, f.kept.store.Waiting())
	}
	f.kept.put++
}

// takeKept processes the message that has waited longest.
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
		f.fail("topic %d: message %d of key %d is not newer than %d", m.topic, m.number, m.key, last)
	}
	f.kept.seen[m.keptKey] = m.number
	f.kept.taken++
	return true
}

// checkKept checks that at the end each key has its last message, unless that was reported lost,
// and that all others were replaced.
func (f *feed) checkKept() {
	if f.kept == nil {
		return
	}
	for f.takeKept() {
	}
	replaced := f.kept.store.Replaced()
	f.sub.sim.report.Replaced += replaced
	if f.kept.taken+replaced != f.kept.put {
		f.fail("%d messages were processed and %d replaced, of %d", f.kept.taken, replaced, f.kept.put)
	}
	for i := range min(len(f.topics), len(f.t.topics)) {
		if !f.topics[i].begun {
			continue
		}
		last := make(map[uint64]uint64)
		for n := max(f.firstOf(i), f.t.firstFrom(i, f.topics[i].from), f.topics[i].state.number); n < f.topics[i].next; n++ {
			if m := &f.t.topics[i].sent[n]; m.size <= f.sub.maxMessage() && m.last >= f.topics[i].named && !f.inHole(m.first, m.last) {
				last[n%uint64(f.options.Conflate)] = n
			}
		}
		for key, n := range last {
			if got, ok := f.kept.seen[keptKey{i, key}]; !ok || got < n {
				f.fail("topic %d: key %d ends with message %d, but its last is %d", i, key, got, n)
			}
		}
	}
}
