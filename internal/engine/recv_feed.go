package engine

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/fanfaremq/fanfare/internal/ring"
	"github.com/fanfaremq/fanfare/internal/slow"
	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// feed is the part of a subscription that reads one stream.
type feed struct {
	g  *group
	s  *Subscription
	st *reliable.Stream // loop only, except its identity
	c  *ring.Cursor

	// Used by the reader only, except atomics:
	reading
	seq     uint64        // of the last item
	quarter int           // a quarter of the stream's window, in packets
	bound   int           // how many packets it may be behind: slow.Policy
	newest  atomic.Uint64 // position of the latest packet in which a message begins, for slow.Latest
	ofPatterns
	blind    atomic.Bool  // patterns may miss topics: the group has too many
	squeezed atomic.Bool  // the stream waits for the reader to catch up
	done     atomic.Bool  // the loop may detach it
	finished bool         // the end was read
	later    []laterTopic // topics that begin or end further on in the stream, in its order
	notices

	_ [64]byte // The fields below are written for each packet, and must not share a cache line with the reader's.

	// Loop only:
	o        *output             // of the stream
	topics   map[uint64]struct{} // ids of wanted topics; of a pattern there may be very many
	packet   uint64              // the last one that woke it
	counts   bool                // it is in group.counting
	blocking bool
	left     bool // the subscription has left the group
	unread   unread
	late     slow.Lateness
	_        [112]byte // the next object must not share the line
}

// notices are what a feed delivers besides the items of its reader. Used by the reader only.
type notices struct {
	starting   *events.Event                 // delivered first
	collisions []*events.TopicCollisionError // delivered next; the loop fills it until the feed is in use
	ending     *events.Event                 // delivered last
	lost       bool                          // the loss of the publisher was reported
}

// follow gives the subscription a feed of a stream. It returns false if it has one already, because the publisher was
// only silent. Loop only.
func (s *Subscription) follow(g *group, st *reliable.Stream, start uint64) bool {
	for _, f := range *s.feeds.Load() {
		if f.st == st && !f.left {
			return false
		}
	}
	block := s.blocks(st.Free())
	o := outputOf(st)
	c := o.attach(block)
	if c == nil {
		s.fail(fmt.Errorf("publisher %s: %w", st.Publisher, errNoMemory))
		return true
	}
	f := &feed{g: g, s: s, st: st, o: o, c: c, reading: reading{rd: topics.NewReader(start, s.l.cfg.MaxMessage)},
		seq: st.Next(), blocking: block,
		quarter: st.Span() / 4, bound: s.policy.Bound(st.Span())}
	f.rd.Count(f)
	s.l.trust(st.Publisher, f.rd)
	if st.Joining() {
		f.rd.AwaitState()
	}
	f.reportFaults(s)
	if s.events {
		f.starting = f.event(events.PublisherUp)
	}
	if f.since, f.numbered = start, g.numbered(st); f.numbered {
		o.log.lost = max(o.log.lost, 1) // messages behind the positions may be gone
	}
	f.wild.Store(g.patterns.has(s))
	g.connect(f, f.first())
	feeds := append(append([]*feed(nil), *s.feeds.Load()...), f)
	s.feeds.Store(&feeds)
	if s.events {
		s.l.woken = append(s.l.woken, s)
	}
	return true
}

// first makes the feed want its subscription's topics in the group, and returns their ids. Loop only.
func (f *feed) first() (topics []uint64) {
	want := func(id uint64, name string) {
		switch err := f.o.in.Collided(id); {
		case f.rd.Wants(id) || slices.Contains(f.collisions, err):
			return // several patterns match it
		case err != nil:
			f.collisions = append(f.collisions, err)
			return
		}
		f.rd.Want(id, name, nil)
		f.g.begin(f.st, f.rd, f.g.topics[id])
		topics = append(topics, id)
	}
	for _, t := range f.s.topics.List() {
		switch {
		case t.Group != f.g.index:
		case !t.Pattern.Wild():
			want(wire.TopicID(t.Name), t.Name)
		default:
			for _, id := range f.g.in.NamesMatching(t.Pattern) {
				if t := f.g.topics[id]; t != nil && t.users.Has(f.s) {
					want(id, t.name)
				}
			}
		}
	}
	return topics
}

// setBlock makes the cursor block the stream, or not, as the subscription's policy says. Loop only.
func (f *feed) setBlock() {
	if b := f.s.blocks(f.st.Free()); b != f.blocking {
		f.blocking = b
		f.c.SetBlock(b)
	}
}

// tend checks a feed that is not parked, after each batch. Loop only.
func (f *feed) tend(now reliable.Instant) {
	f.setBlock()
	f.evict(now)
	if f.o.squeezed() {
		f.squeezed.Store(true)
		f.s.watch(f.g, f, now)
	}
	if f.s.sleep.Load() && f.c.Ready() {
		f.s.l.woken = append(f.s.l.woken, f.s)
	}
}

// forget removes a feed that was read to its end from the subscription. Loop only.
func (s *Subscription) forget(f *feed) {
	feeds := dropped(slices.Clone(*s.feeds.Load()), f)
	s.feeds.Store(&feeds)
}

// park parks the cursors, if there is nothing to read. It returns false if something has arrived meanwhile.
func (s *Subscription) park() bool {
	if s.closed.Load() || s.suppressed.Load() {
		return true
	}
	for _, f := range *s.feeds.Load() {
		if !f.finished && !f.c.Park() {
			return false
		}
	}
	return true
}

// giveUp detaches the feeds of a group that the reader has done with. Loop only.
func (s *Subscription) giveUp(g *group) {
	for _, f := range *s.feeds.Load() {
		if f.g == g && f.done.Load() {
			g.disconnect(f)
			s.forget(f)
		}
	}
}

// take passes an item of the log to the feed's reader.
func (s *Subscription) take(f *feed, it *ring.Item, data []byte) {
	if n := it.Skipped; n > 0 {
		f.rd.Missed(it.Seq, max(n, it.Seq-f.seq), events.CauseSlowConsumer) // a skipped gap may have had many packets
		s.l.counters.slowLost.Add(n)
		from, end := f.rd.LostFrom(it.Seq), it.Seq
		s.l.post(func() {
			if f.o.log != nil {
				f.o.log.lost = max(f.o.log.lost, end)
			}
			f.o.in.Missed(from)
		})
	}
	if f.blind.Load() && f.blind.Swap(false) {
		f.rd.Blind(events.CauseTooManyTopics)
	}
	f.seq = it.Seq
	if s.upSet.Load() {
		s.mu.Lock()
		s.follows() // topics may begin with this packet
		s.mu.Unlock()
	}
	if len(f.later) > 0 {
		f.begin(it.Seq)
	}
	if it.Note == nil {
		f.read(data)
		return
	}
	switch e := it.Note.(type) {
	case *topics.Event:
		f.rd.TakeNote(e)
	case *reliable.Event:
		f.rd.Take(e)
	case *endNote:
		f.rd.Take(&e.Event)
		f.finished = f.finished || e.Kind == reliable.EventEnd
		if !f.finished || e.Cause == events.CauseNone || !f.lost {
			f.lost = true
			f.ending = f.event(streamEvent(e.Cause))
			f.ending.Topics, f.ending.Err = e.announced, f.o.ownFault()
		}
	}
}

func (f *feed) event(kind events.Kind) *events.Event {
	return &events.Event{Kind: kind, Group: f.g.address, Publisher: f.st.Publisher,
		Name: f.st.Origin().Name, Epoch: f.st.Epoch, Relevant: f.o.in.Relevant()}
}

// release returns the leased item, and wakes the loop if the stream waits for that.
func (s *Subscription) release(f *feed) {
	f.c.Return()
	s.shown.Store(s.got)
	if f.finished {
		f.done.Store(true)
		s.l.wakeBy(0)
		return
	}
	if f.squeezed.Load() && f.c.Lag() <= f.quarter && f.squeezed.CompareAndSwap(true, false) {
		s.l.commands.resume.Store(true)
		s.l.wakeBy(0)
	}
}
