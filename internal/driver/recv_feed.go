package driver

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/fanfaremq/fanfare/internal/ring"
	"github.com/fanfaremq/fanfare/internal/slow"
	"github.com/fanfaremq/fanfare/reliable"
)

// feed is what a subscription reads of one stream.
type feed struct {
	g  *group
	s  *Subscription
	st *reliable.Stream // loop only, but for its identity
	c  *ring.Cursor

	// The reader's own, but for atomics:
	rd         *reliable.Reader
	seq        uint64                          // of the last item
	quarter    int                             // of the stream's window, in packets
	bound      int                             // how many packets it may be behind, see slow.Policy
	newest     atomic.Uint64                   // position of the latest packet with the beginning of a message, for slow.Latest
	squeezed   atomic.Bool                     // the stream wants to hear when we have read on
	done       atomic.Bool                     // the loop may detach it
	finished   bool                            // the end was read
	lost       bool                            // that the publisher is lost was told
	later      []laterTopic                    // topics that begin further on
	starting   *Event                          // to be delivered first
	ending     *Event                          // to be delivered when the reader is through
	collisions []*reliable.TopicCollisionError // once it is in use: to be delivered next

	_ [64]byte // what follows is written for each packet, and shares no cache line with the reader's

	// Loop only:
	o        *output  // the stream's
	topics   []uint64 // ids of those that it wants
	packet   uint64   // the last one that it was woken for
	counts   bool     // it is among group.counting
	blocking bool
	left     bool // the subscription has left the group
	unread   unread
	late     slow.Lateness
	_        [64]byte // the next object must not share the line
}

// follow gives the subscription a feed of a stream. Loop only.
// It reports false when it has one already: the publisher was only silent.
func (s *Subscription) follow(g *group, st *reliable.Stream, start uint64) bool {
	for _, f := range *s.feeds.Load() {
		if f.st == st && !f.left {
			return false
		}
	}
	block := s.policy.Blocks(st.Free())
	o := outputOf(st)
	c := o.attach(block)
	if c == nil {
		s.fail(fmt.Errorf("publisher %s: %w", id(st.Publisher), errNoMemory))
		return true
	}
	f := &feed{g: g, s: s, st: st, o: o, c: c, rd: reliable.NewReader(start, s.l.cfg.Receiver.MaxMessage), seq: st.Next(), blocking: block,
		quarter: st.Span() / 4, bound: s.policy.Bound(st.Span())}
	f.rd.Count(f)
	f.tellFaults(s)
	if s.events {
		f.starting = f.event(PublisherUp)
	}
	var topics []uint64
	for _, t := range s.topics {
		if t.Group != g.index {
			continue
		}
		id := reliable.TopicID(t.Name)
		if err := st.Collided(id); err != nil {
			f.collisions = append(f.collisions, err)
			continue
		}
		f.rd.Want(id, t.Name, nil)
		topics = append(topics, id)
	}
	g.connect(f, topics)
	feeds := append(append([]*feed(nil), *s.feeds.Load()...), f)
	s.feeds.Store(&feeds)
	if s.events {
		s.l.woken = append(s.l.woken, s)
	}
	return true
}

// setBlock makes the cursor hold the stream up, or not, as the subscription wants it.
// Loop only.
func (f *feed) setBlock() {
	if b := f.s.policy.Blocks(f.st.Free()); b != f.blocking {
		f.blocking = b
		f.c.SetBlock(b)
	}
}

// tend looks after a feed that is not parked, after each batch. Loop only.
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

// forget takes a feed that was read to its end from the subscription. Loop only.
func (s *Subscription) forget(f *feed) {
	feeds := dropped(slices.Clone(*s.feeds.Load()), f)
	s.feeds.Store(&feeds)
}

// park parks the cursors, since there is nothing more to be read. It reports false
// when something has come meanwhile.
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

// giveUp gives back the feeds of a group's streams that the reader is done with. Loop
// only.
func (s *Subscription) giveUp(g *group) {
	for _, f := range *s.feeds.Load() {
		if f.g == g && f.done.Load() {
			g.disconnect(f)
			s.forget(f)
		}
	}
}

// take feeds an item to the stream's reader.
func (s *Subscription) take(f *feed, it *ring.Item, data []byte) {
	if n := it.Skipped; n > 0 {
		f.rd.Skip(max(n, it.Seq-f.seq), reliable.CauseSlowConsumer) // some may have been gaps of many packets
		s.l.counters.slowLost.Add(n)
		st := f.st
		s.l.post(st.WantTotals)
	}
	f.seq = it.Seq
	if len(f.later) > 0 {
		f.begin(it.Seq)
	}
	switch it.Kind {
	case ring.KindPacket:
		f.rd.Packet(reliable.PacketData(data))
	case ring.KindGap:
		f.rd.Skip(it.Count, reliable.Cause(it.Cause))
	case ring.KindNote:
		switch t := it.Note.(type) {
		case reliable.TopicTotal:
			f.rd.Total(t)
			if t.Lost != reliable.CauseNone {
				f.lost = true
				f.ending = f.event(streamEvent(t.Lost))
			}
		case *reliable.TopicCollisionError:
			if f.rd.Wants(t.ID) {
				f.rd.Drop(t.ID)
				f.collisions = append(f.collisions, t)
			}
		}
	case ring.KindEnd:
		if it.Count > 0 {
			f.rd.Skip(it.Count, reliable.Cause(it.Cause))
		}
		f.rd.End()
		f.finished = true
		if kind := streamEvent(reliable.Cause(it.Cause)); kind == PublisherEnded || !f.lost {
			f.ending = f.event(kind)
		}
	}
}

func (f *feed) event(kind EventKind) *Event {
	return &Event{Kind: kind, Group: f.g.address, Publisher: f.st.Publisher, Name: f.st.Origin().Name, Epoch: f.st.Epoch, Relevant: f.st.Relevant()}
}

// release gives the leased item back and, when a stream waits for that, tells
// the loop.
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
