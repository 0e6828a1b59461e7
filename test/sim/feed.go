package sim

import (
	"slices"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// feed is what a reader gets of one stream, and the state of its checks: each message of a wanted topic comes once, in
// order, and unchanged, or is reported as lost, which it must be.
type feed struct {
	r         *reader
	x         *stream
	t         *truth // nil: a forged stream
	start     uint64 // next packet of the stream when the reader began; 0: it reads the stream from its beginning
	topics    [MaxTopics]topicFeed
	unknown   bool // a loss of unknown extent was reported
	overtaken bool // the reader has lost messages because it was slow
	kept      *kept
}

// topicFeed is the state of one topic of a feed.
type topicFeed struct {
	added          bool   // a pattern was added that matches it
	from, earliest uint64 // then the topic is wanted from packet from on, or from one since earliest
	begun          bool
	next           uint64 // number of the next message
	got            uint64
	last           uint64 // 1 + the number of the last message
	state          stateFeed
}

// from returns the first packet from which a topic is wanted.
func (f *feed) from(topic int) uint64 { return max(f.x.st.Start(), f.start, f.topics[topic].from) }

// has reports whether a delivery belongs to the feed, of which the stream was evicted, and not to a later one.
func (f *feed) has(d *engine.Delivery) bool {
	i := topicIndex(d.Topic)
	if i < 0 || f.t == nil || i >= len(f.t.topics) || d.Number >= uint64(len(f.t.topics[i].sent)) {
		return false
	}
	return f.t.topics[i].sent[d.Number].last < f.x.st.Next()
}

// item checks an item. Without proofs of identity it may be forged.
func (f *feed) item(d *engine.Delivery) {
	s := f.r.sub.sim
	switch {
	case f.t != nil:
		f.check(d)
	case s.o.Trust != nil && d.Topic != nil:
		f.fail("an item of publisher %v is delivered that no publisher sent: %+v", d.From.Publisher, d.Item)
	}
}

// check checks one message or gap.
func (f *feed) check(d *engine.Delivery) {
	it, s := &d.Item, f.r.sub
	if f.slow(d); it.Topic == nil {
		if !it.Unknown || !f.losses() {
			f.fail("item without a topic: %+v", *it)
		}
		f.unknown = true
		return
	}
	i := topicIndex(it.Topic)
	if i < 0 || i >= len(f.t.topics) && it.State != reliable.StateMissing {
		f.fail("topic %d, but the publisher has %d topics", i, len(f.t.topics))
		return
	}
	tf := &f.topics[i]
	if p := f.r.adding; p.Wild() && !f.wants(i) && p.Match(topicNames[i]) { // it has just been added
		tf.added, tf.from, tf.earliest = true, f.x.st.Next(), f.r.before[f.x]
	}
	if !f.wants(i) {
		f.fail("item of topic %d, which is not subscribed", i)
	}
	if it.State != reliable.StateOfNone {
		f.checkState(i, it)
		return
	}
	sent := f.t.topics[i].sent
	tf.next = f.beginning(i, it.Number)
	tf.begun = true
	if f.unknown && tf.got == 0 { // a gap of unknown topic and extent was reported
		tf.next = max(tf.next, it.Number)
	}
	if it.Gap() && it.Number+1 == tf.next && tf.got == 0 && it.Number < uint64(len(sent)) &&
		sent[it.Number].last >= f.from(i) {
		tf.next-- // it began before the stream did here: it may be counted or not
	}
	if it.Gap() && it.Cause == events.CauseSlowConsumer && tf.got == 0 {
		tf.next = min(tf.next, it.Number) // the reader skipped the packet with which the topic begins
	}
	switch {
	case it.Unknown:
		if !f.losses() || it.Number < tf.next && tf.got > 0 { // a total may date from before the topic was wanted
			f.fail("topic %d: unexpected gap up to %d, next is %d", i, it.Number, tf.next)
		}
		f.lost(i, tf.next, it.Number, it.Cause)
		tf.next = max(tf.next, it.Number)
	case it.Lost > 0:
		if it.Number != tf.next || it.Number+it.Lost > uint64(len(sent)) {
			f.fail("topic %d: gap of %d messages at %d, next is %d, %d were sent", i, it.Lost, it.Number, tf.next, len(sent))
			return
		}
		f.lost(i, it.Number, it.Number+it.Lost, it.Cause)
		tf.next += it.Lost
		s.sim.report.GapMessages += it.Lost
	case it.Number != tf.next:
		f.fail("topic %d: message %d, next is %d", i, it.Number, tf.next)
	default:
		if !f.content(i, d) {
			return
		}
		tf.next++
		tf.got++
		f.request(d, &sent[it.Number])
	}
}

// content checks the content of a message. It reports whether the message is right.
func (f *feed) content(i int, d *engine.Delivery) bool {
	s, sent := f.r.sub, f.t.topics[i].sent
	if d.Number >= uint64(len(sent)) {
		f.fail("topic %d: message %d, only %d were sent", i, d.Number, len(sent))
		return false
	}
	m := &sent[d.Number]
	switch {
	case len(d.Data) != m.size || !f.t.content.matches(d.Data, m.key):
		f.fail("topic %d: content of message %d is wrong", i, d.Number)
		return false
	case m.size > s.maxMessage():
		f.fail("topic %d: message %d has %d bytes, the limit is %d", i, d.Number, m.size, s.maxMessage())
	case (f.t.unreadable(m.first) || f.t.unreadable(m.last)) && !s.sim.o.forged():
		f.fail("topic %d: message %d is delivered, but its packets %d to %d cannot be read", i, d.Number, m.first, m.last)
	}
	f.topics[i].last = d.Number + 1
	s.sim.report.delivered(s.sim.now.Sub(m.at), len(d.Data), !s.o.FromWindow && !s.o.FromState)
	return true
}

// slow records that a message or gap was lost because the reader was slow.
func (f *feed) slow(d *engine.Delivery) {
	if !d.Gap() || d.Cause != events.CauseSlowConsumer {
		return
	}
	if (f.r.options.Block || f.r.number == 0) && !f.x.removed {
		f.fail("lost messages because it was slow, though it blocks the publisher: %+v", d.Item)
	}
	if f.overtaken = true; f.r.options.Slow.Kind != 0 {
		f.r.sub.sim.report.Jumps++
	}
	f.r.sub.sim.report.gap(max(1, d.Lost), d.Cause)
}

// losses reports whether anything may be lost.
func (f *feed) losses() bool {
	return f.overtaken || len(f.r.sub.holes[f.x.st.Instance]) > 0 || f.numbered() || f.r.overtaken()
}

// lost checks that each message reported as lost has lost a packet, or is refused by the subscriber.
func (f *feed) lost(topic int, from, to uint64, cause events.Cause) {
	if cause == events.CauseSlowConsumer {
		return // not read in time
	}
	for n := from; n < to && n < uint64(len(f.t.topics[topic].sent)); n++ {
		m := &f.t.topics[topic].sent[n]
		if m.size > f.r.sub.maxMessage() || m.first < f.from(topic) || m.last < f.named(topic) || f.overtaken {
			continue // too long, begun before the feed, or before the topic's name
		}
		if !f.r.sub.inHole(f.x.st.Instance, m.first, m.last) && !f.r.overtaken() {
			f.fail("topic %d: message %d is reported as lost (%v), but its packets %d to %d arrived", topic, n, cause, m.first, m.last)
		}
	}
}

// finish checks, when the stay ends, that all messages before the feed's position in the stream are accounted for.
func (f *feed) finish() {
	if f.t == nil || !f.r.idle() {
		return
	}
	f.checkNewest()
	f.checkKept()
	if f.unknown || f.r.c != nil {
		return
	}
	for i := range f.t.topics {
		if !f.wants(i) || f.named(i) >= f.x.st.Next() {
			continue
		}
		want, next := f.t.before(i, f.x.st.Next()), f.nextOf(i)
		if next < want {
			if f.lossPending() && !f.r.sub.final {
				continue
			}
			f.fail("topic %d: silent loss: messages below %d are accounted for, but %d were in the packets below %d", i, next, want, f.x.st.Next())
		}
	}
}

// lossPending reports whether the feed has not yet been informed of all its losses.
func (f *feed) lossPending() bool {
	if f.t == nil || f.unknown || f.r.c != nil || f.x.st.Ended() || !f.losses() {
		return false
	}
	for i := range f.t.topics {
		if f.wants(i) && f.nextOf(i) < f.t.before(i, f.x.st.Next()) {
			return true
		}
	}
	return false
}

func (f *feed) fail(format string, args ...any) {
	var of events.Instance
	start := uint64(0)
	if f.x.st != nil {
		of, start = f.x.st.Instance, f.x.st.Start()
	}
	f.r.fail("stream %v.%d from %d: "+format, append([]any{of.Publisher, of.Epoch, start}, args...)...)
}

// received reports whether a whole message may have been received by the reader: none of its packets was lost.
func (f *feed) received(m *message) bool {
	return m.size <= f.r.sub.maxMessage() && !f.r.sub.inHole(f.x.st.Instance, m.first, m.last)
}

// topicIndex returns the number of a topic, or -1.
func topicIndex(t *topics.Track) int {
	if t == nil {
		return -1
	}
	return slices.Index(allTopicIDs, t.ID)
}
