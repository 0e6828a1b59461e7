package sim

import (
	"math/bits"
	"time"

	"github.com/fanfaremq/fanfare/internal/ring"
	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/reliable"
)

// output receives the events of one stream of a subscriber: for a feed in place, and for the log
// that others read with cursors.
type output struct {
	s           *subscriber
	st          *reliable.Stream
	t           *truth // nil: a forged stream
	feeds       []*feed
	log         *ring.Log // nil: no cursor reads
	down        int       // 1 + the cause with which the stream went down; 0: it is up
	lost        []hole    // packets that never arrived
	deliveries  deliveries
	begin       uint64          // beginning of the stream when it came up
	namesFrom   uint64          // names are learned from this packet on
	unread      map[uint64]bool // packets that arrived and cannot be read
	unsupported bool            // unreadable packets were reported
}

func outputOf(st *reliable.Stream) *output { return st.Output().(*output) }

// open returns the output of a new stream.
func (s *subscriber) open(st *reliable.Stream) *output {
	o := &output{s: s, st: st, t: s.sim.truth(st.Instance), begin: st.Start(), unread: make(map[uint64]bool)}
	if o.t != nil && st.Start() > o.t.next {
		o.t = nil // begun by a forged packet, which is possible without authentication
	}
	o.checkKnown()
	o.checkJoin()
	if s.o.InPlace {
		o.add(newFeed(s, st, o.t, Reader{}, 0))
	}
	return o
}

func (o *output) add(f *feed) {
	f.out = o
	f.before = o.s.before(f)
	f.index = len(o.s.feeds)
	o.s.feeds = append(o.s.feeds, f)
	o.feeds = append(o.feeds, f)
}

// attach creates the cursors of the subscriber's readers when the stream first comes up.
func (o *output) attach() {
	if o.log != nil || len(o.s.o.Readers) == len(o.s.evicted) {
		return
	}
	slots := o.st.Keep()
	if slots == nil {
		o.s.sim.fail("subscriber %d: a stream without a window", o.s.number)
		return
	}
	o.log = ring.NewLog(slots, 1<<bits.Len(uint(o.st.Span()+63)))
	for i, r := range o.s.o.Readers {
		if o.s.evicted[i] {
			continue
		}
		f := newFeed(o.s, o.st, o.t, r, 1+i)
		f.c = o.log.Attach(r.Block)
		o.add(f)
	}
}

// detach closes a feed's cursor.
func (o *output) detach(f *feed) {
	o.log.Detach(f.c)
	f.c = nil
	if o.log.Cursors() == 0 {
		o.st.Unkeep()
	}
}

// inPlace returns the feed that is called in place, or nil.
func (o *output) inPlace() *feed {
	if len(o.feeds) > 0 && o.s.o.InPlace {
		return o.feeds[0]
	}
	return nil
}

// Room implements reliable.Output.
func (o *output) Room() bool {
	return (o.inPlace() == nil || o.s.room()) && (o.log == nil || o.log.Cursors() == 0 || o.log.Room())
}

// Deliver implements reliable.Output.
func (o *output) Deliver(e *reliable.Event) (kept bool) {
	o.s.turn++
	o.begun()
	switch e.Kind {
	case reliable.EventGap, reliable.EventEnd:
		o.s.sim.trace("subscriber %d: event %d, gap of %d packets at %d: %v", o.s.number, e.Kind, e.Count, e.Seq, e.Cause)
	case reliable.EventCollision:
		o.s.sim.fail("subscriber %d: %v", o.s.number, e.Collision)
	case reliable.EventFault:
		o.fault(e.Fault)
		return false
	}
	o.checkReadable(e)
	if e.Kind == reliable.EventGap || e.Kind == reliable.EventEnd {
		o.lost = append(o.lost, hole{e.Seq, e.Seq + e.Count, e.Cause})
	}
	if e.Kind == reliable.EventPacket {
		o.deliveries.add(o.s.sim.now, e.Seq)
	}
	if f := o.inPlace(); f != nil {
		f.deliver(e)
	}
	if o.log == nil || o.log.Cursors() == 0 {
		return false
	}
	switch e.Kind {
	case reliable.EventPacket:
		for _, f := range o.feeds {
			if f.c != nil {
				f.c.Wake() // each feed wants all topics
				f.begins(e.Packet)
			}
		}
		o.log.AppendPacket(e.Seq, e.Slot, e.Size())
		return true
	case reliable.EventEnd:
		note := *e
		o.log.End(e.Seq, &note)
	case reliable.EventState:
		note := *e
		note.Packet = topics.StateRuns(e.Packet)
		o.log.AppendNote(e.Seq, &note)
	case reliable.EventGap, reliable.EventListed, reliable.EventDown, reliable.EventStateEnd:
		note := *e
		o.log.AppendNote(e.Seq, &note)
	}
	return false
}

// deliver processes an event in place.
func (f *feed) deliver(e *reliable.Event) {
	if f.gone && e.Kind != reliable.EventEnd && e.Kind != reliable.EventDown {
		f.fail("event of a stream that is down: %+v", e)
	}
	f.begin(e.Seq)
	f.process(e)
	f.gone = e.Kind == reliable.EventDown
}

// Backlog implements reliable.Output.
func (o *output) Backlog() (unread, held int) {
	if o.log == nil {
		return 0, 0
	}
	return o.log.Backlog(), o.log.Held()
}

// Reclaim implements reliable.Output.
func (o *output) Reclaim(n int) {
	if o.log == nil {
		return
	}
	if o.log.Reclaim(); o.log.Slots().Free() == 0 {
		o.log.Overtake(n)
	}
}

// Abandon implements reliable.Output.
func (o *output) Abandon() bool { return o.log == nil || o.log.Cursors() == 0 || o.log.Abandon() }

// turnTime is the time between two turns of a subscriber's in-place feeds, if Subscriber.Turn
// limits the events of a turn.
const turnTime = 20 * time.Microsecond

// room reports whether in-place feeds may process another event in this turn.
func (s *subscriber) room() bool {
	if s.o.Turn > 0 && s.turn >= s.o.Turn {
		s.refused = true
		return false
	}
	return true
}

// beginTurn begins a turn with the events that the last one left.
func (s *subscriber) beginTurn(now reliable.Instant) {
	s.turn = 0
	for _, st := range s.r.Streams() {
		if o := outputOf(st); o.log != nil && !st.Ended() {
			o.log.Reclaim()
		}
	}
	if s.refused {
		s.refused = false
		s.r.Resume(now)
	}
}

// nextDue returns the time of the next action if no packet arrives.
func (s *subscriber) nextDue(now reliable.Instant) reliable.Instant {
	d := s.r.Deadline()
	if d <= now && len(s.rx) > 0 {
		d = reliable.Never // waits until the received packets are read
	}
	if s.refused {
		d = min(d, now.Add(turnTime))
	}
	return d
}
