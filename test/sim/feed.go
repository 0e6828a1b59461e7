package sim

import (
	"slices"

	"github.com/fanfaremq/fanfare/internal/ring"
	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// feed is one reader of one stream at a subscriber, in place or through a cursor, with the state of its checks.
type feed struct {
	sub     *subscriber
	st      *reliable.Stream
	out     *output
	t       *truth // nil: a forged stream
	r       *topics.Reader
	c       *ring.Cursor // nil: in place
	options Reader
	index   int
	reader  int   // 0: in place; 1 + the number of the cursor's Reader
	before  *feed // the evicted feed of the same instance before this one; nil: none
	item    topics.Item

	consumed uint64 // packets below this were read or skipped
	topics   []topicFeed
	holes    []hole // packets lost permanently
	unknown  bool   // a loss of unknown extent was reported
	patternState
	down    int  // 1 + the cause with which the stream went down; 0: it is up
	gone    bool // the loss of the publisher was reported, in order
	over    bool // the stream has ended for this feed
	reading bool // a read event is scheduled
	newestState
	kept     *kept // the newest messages by key; nil: all messages are read
	leased   bool
	leaseSum uint32
	leaseMem []byte
}

// topicFeed is the state of one topic of a feed.
type topicFeed struct {
	wanted bool
	from   uint64 // first packet from which the topic is wanted
	named  uint64 // its name was lost, and came with this packet: messages before it are missing
	begun  bool
	next   uint64 // number of the next message
	got    uint64
	state  stateFeed
}

// hole is a range of lost packets, with the cause.
type hole struct {
	first, end uint64
	cause      events.Cause
}

func newFeed(sub *subscriber, st *reliable.Stream, t *truth, o Reader, reader int) *feed {
	f := &feed{sub: sub, st: st, t: t, options: o, reader: reader, consumed: st.Start(),
		topics: make([]topicFeed, sub.o.Topics)}
	if len(sub.o.Patterns) > 0 {
		f.topics = make([]topicFeed, MaxTopics)
	}
	f.since = st.Start()
	f.expect()
	f.r = topics.NewReader(st.Start(), sub.maxMessage())
	if st.BeginsWithState() {
		f.r.AwaitState()
	}
	f.r.Count(tally{sub.sim.report})
	if now := sub.trust(); now != nil {
		f.r.Trust(st.Publisher, now)
	}
	if t != nil { // real publishers follow the protocol
		f.r.OnFault(func(err *events.FaultError) { f.fail("%v", err) })
	}
	for i, name := range topicNames[:sub.o.Topics] {
		f.r.Want(sub.sim.topicIDs[i], name, i)
		f.beginFrom(sub.sim.topicIDs[i])
	}
	for _, p := range sub.patterns {
		for _, id := range sub.r.NamesMatching(p) {
			if name, _ := sub.r.Name(id); !f.r.Wants(id) {
				f.r.Want(id, name, slices.Index(topicNames, name))
				f.beginFrom(id)
			}
		}
	}
	return f
}

// process handles the next event.
func (f *feed) process(e *reliable.Event) {
	switch e.Kind {
	case reliable.EventPacket:
		f.begin(f.consumed)
		f.consumed++
	case reliable.EventGap:
		f.hole(e.Seq, e.Count, e.Cause)
	case reliable.EventEnd:
		if e.Count > 0 {
			f.hole(e.Seq, e.Count, e.Cause)
		}
		f.over = f.c != nil || e.Cause == events.CauseNone
	}
	f.r.Take(e)
	f.drain()
}

// hole records lost packets.
func (f *feed) hole(first, count uint64, cause events.Cause) {
	if first != f.consumed || count == 0 {
		f.fail("gap of %d packets at %d, but packets below %d were read", count, first, f.consumed)
	}
	f.consumed += count
	f.holes = append(f.holes, hole{first, first + count, cause})
	f.sub.sim.report.gap(count, cause)
}

// overtaken records that the cursor was overtaken by packets up to seq.
func (f *feed) overtaken(seq uint64) {
	n := seq - f.consumed
	f.hole(f.consumed, n, events.CauseSlowConsumer)
	f.r.Missed(seq, n, events.CauseSlowConsumer)
	f.drain()
}

// drain checks all items of the reader.
func (f *feed) drain() {
	for f.sub.sim.err == nil {
		switch {
		case f.consumed%2 == 0 && f.r.Open(): // alternates: both ways to read must yield the same
			f.run()
		case f.r.Next(&f.item):
			f.checkItem()
		default:
			return
		}
	}
}

// run reads all messages of a run.
func (f *feed) run() {
	t, body, step, number := f.r.Run()
	for f.sub.sim.err == nil {
		m, rest, ok := topics.NextMessage(body, step, f.r.MaxMessage())
		if !ok {
			break
		}
		f.item = topics.Item{Topic: t, Number: number, Data: m}
		f.checkItem()
		body = rest
		number++
	}
	f.r.Took(body, number)
}

// check checks one message or gap.
func (f *feed) check(it *topics.Item) {
	if it.Topic == nil {
		if !it.Unknown || len(f.holes) == 0 && !f.numbered() {
			f.fail("item without a topic: %+v", *it)
		}
		f.unknown = true
		return
	}
	i := it.Topic.Data.(int)
	if i >= len(f.t.topics) && it.State != reliable.StateMissing {
		f.fail("topic %d, but the publisher has %d topics", i, len(f.t.topics))
		return
	}
	tf := &f.topics[i]
	if !tf.wanted {
		f.fail("item of topic %d, which is not subscribed", i)
	}
	if it.State != reliable.StateOfNone {
		f.checkState(i, it)
		return
	}
	tf.next = f.nextOf(i)
	tf.begun = true
	if f.unknown && tf.got == 0 { // a gap of unknown topic and extent was reported
		tf.next = max(tf.next, it.Number)
	}
	sent := f.t.topics[i].sent
	if it.Gap() && it.Number+1 == tf.next && tf.got == 0 && it.Number < uint64(len(sent)) &&
		sent[it.Number].last >= tf.from {
		tf.next-- // it began before the stream did here: it may be counted or not
	}
	switch {
	case it.Unknown:
		if len(f.holes) == 0 || it.Number < tf.next && tf.got > 0 { // a total may date from before the topic was wanted
			f.fail("topic %d: unexpected gap up to %d, next is %d, %d holes", i, it.Number, tf.next, len(f.holes))
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
		f.sub.sim.report.GapMessages += it.Lost
	case it.Number != tf.next:
		f.fail("topic %d: message %d, next is %d", i, it.Number, tf.next)
	case it.Number >= uint64(len(sent)):
		f.fail("topic %d: message %d, only %d were sent", i, it.Number, len(sent))
	case len(it.Data) != sent[it.Number].size || !f.t.content.matches(it.Data, sent[it.Number].key):
		f.fail("topic %d: content of message %d is wrong", i, it.Number)
	default:
		tf.next++
		tf.got++
		f.keep(i, it.Number)
		f.request(it, &sent[it.Number])
		f.sub.sim.report.delivered(f.sub.sim.now.Sub(sent[it.Number].at), len(it.Data), !f.sub.o.FromWindow &&
			!f.sub.o.FromState)
	}
}

// lost checks that each message reported as lost has lost a packet, or is refused by the subscriber.
func (f *feed) lost(topic int, from, to uint64, cause events.Cause) {
	for n := from; n < to && n < uint64(len(f.t.topics[topic].sent)); n++ {
		m := &f.t.topics[topic].sent[n]
		if m.size > f.sub.maxMessage() || m.first < f.topics[topic].from || m.last < f.topics[topic].named {
			continue // too long, begun before the feed, or before the topic's name
		}
		if !f.inHole(m.first, m.last) {
			f.fail("topic %d: message %d is reported as lost (%v), but its packets %d to %d arrived", topic, n, cause, m.first, m.last)
		}
	}
}

func (f *feed) inHole(first, last uint64) bool {
	for i := len(f.holes) - 1; i >= 0; i-- {
		if h := &f.holes[i]; h.first <= last && first < h.end {
			return true
		}
	}
	return false
}

// finish checks, after the last event, that all messages before the feed's position in the stream are accounted for.
func (f *feed) finish() {
	if f.t == nil || f.sub.evicted[f.reader-1] {
		return // an evicted feed is not informed of its losses
	}
	f.lossless()
	f.checkNewest()
	f.checkKept()
	if b := f.before; b != nil && (b.over || b.c == nil) && b.consumed != f.st.Start() {
		f.fail("continues at packet %d, but was evicted at %d", f.st.Start(), b.consumed)
	}
	if f.unknown {
		return
	}
	for i := range min(len(f.topics), len(f.t.topics)) {
		tf := &f.topics[i]
		if !tf.wanted || !f.wants(f.sub.sim.topicIDs[i]) && f.st.Start() > 0 && f.out.listed(f.consumed) == nil {
			continue // or its name is not known yet
		}
		want := f.t.before(i, f.consumed)
		tf.next = f.nextOf(i)
		if tf.next < want {
			if f.lossPending() && !f.sub.final {
				continue
			}
			f.fail("topic %d: silent loss: messages below %d are accounted for, but %d were in the packets below %d (%d holes)", i, tf.next, want, f.consumed, len(f.holes))
		}
	}
}

// lossless checks that a subscriber has lost nothing, if a publisher under min has discovered it
// and not released it, and if it was cut off or stopped for no longer than the protocol tolerates.
func (f *feed) lossless() {
	s := f.sub.sim
	m := f.t.members[f.sub.id]
	if f.t.o.Flow != FlowMin || f.t.killed || m == nil || !f.t.counts(m) || m.silent || m.wasReleased ||
		s.o.canLose(f.sub.o, f.sub.number) {
		return
	}
	for _, h := range f.holes {
		if h.cause != events.CauseSlowConsumer &&
			(h.cause != events.CauseUnreadable || f.t.o.Unreadable == 0 && !f.sub.o.NoDictionary) && h.end > m.since {
			f.fail("packets %d to %d are lost under min flow control: %v (member since %d)", h.first, h.end-1, h.cause, m.since)
		}
	}
}

// lossPending reports whether the feed has not yet been informed of all its losses.
func (f *feed) lossPending() bool {
	if f.t == nil || f.unknown || f.over || len(f.holes) == 0 && !f.numbered() {
		return false
	}
	for i := range min(len(f.topics), len(f.t.topics)) {
		tf := &f.topics[i]
		if tf.wanted && f.nextOf(i) < f.t.before(i, f.consumed) {
			return true
		}
	}
	return false
}

func (f *feed) fail(format string, args ...any) {
	name := "in place"
	if f.c != nil {
		name = "cursor"
	}
	var of events.Instance
	if f.t != nil {
		of = f.t.Instance
	}
	f.sub.sim.fail("subscriber %d (%s, stream %v.%d from %d): "+format, append([]any{f.sub.number, name, of.Publisher, of.Epoch, f.st.Start()}, args...)...)
}

// read reads from the cursor: one packet if the reader is slow, otherwise all. It reports whether there may be more.
func (f *feed) read() (more bool) {
	for f.sub.sim.err == nil {
		if f.leased {
			if sum32(f.leaseMem) != f.leaseSum {
				f.fail("a leased packet changed")
			}
			f.process(&reliable.Event{Kind: reliable.EventPacket, Packet: f.readable(f.leaseMem)})
			f.leased = false
			f.c.Return()
			if f.options.Delay > 0 {
				return true
			}
		}
		f.jump()
		it, data, ok := f.c.Lease()
		if !ok {
			if !f.over && !f.c.Park() {
				f.fail("the cursor has unread entries, but Lease returned none")
			}
			return false
		}
		f.begin(it.Seq)
		e, _ := it.Note.(*reliable.Event) // nil: a packet
		end := e != nil && e.Kind == reliable.EventEnd
		if it.Seq > f.consumed && (end || !f.options.Block) {
			if !end {
				f.checkJump(it)
				f.passed = false
			}
			if it.Skipped == 0 {
				f.fail("packets %d to %d are missing without a report", f.consumed, it.Seq-1)
			}
			f.overtaken(it.Seq)
		}
		if it.Skipped > 0 {
			f.st.Missed(f.r.LostFrom(it.Seq)) // even if it skipped only notes
			f.r.SkipState()                   // even if it skipped only state
			f.drain()
		}
		if e == nil {
			if it.Seq != f.consumed {
				f.fail("packet %d, next is %d", it.Seq, f.consumed)
			}
			f.leased, f.leaseMem, f.leaseSum = true, data, sum32(data)
			if f.options.Delay > 0 {
				return true
			}
			continue
		}
		f.process(e)
		if end {
			f.c.Return()
			return false
		}
		f.c.Return()
	}
	return false
}
