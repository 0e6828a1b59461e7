package reliable

import (
	"math/bits"
	"time"

	"github.com/fanfaremq/fanfare/internal/ring"
)

// recorder is a stream's output in tests: it records deliveries in log, and stores them for cursors, if any.
type recorder struct {
	log    *log
	st     *Stream
	cursor *ring.Log // nil: no cursor was attached
}

// Open implements Sink.
func (l *log) Open(_ Instant, st *Stream) (Output, Contents) {
	if l.contents == nil {
		return &recorder{log: l, st: st}, opaque{}
	}
	return &recorder{log: l, st: st}, l.contents(st)
}

// read reports whether cursors read the stream.
func (o *recorder) read() bool { return o.cursor != nil && o.cursor.Cursors() > 0 }

func (o *recorder) Room() bool {
	return (o.log.room == nil || o.log.room()) && (!o.read() || o.cursor.Room())
}

func (o *recorder) Deliver(e *Event) (kept bool) {
	l := o.log
	switch e.Kind {
	case EventPacket:
		l.packet(o.st, PacketData(e.Packet))
	case EventGap, EventEnd:
		if e.Count > 0 {
			l.gaps = append(l.gaps, [3]uint64{e.Seq, e.Count, uint64(e.LostBy())})
		}
	case EventDown:
		l.lost = append(l.lost, e.Cause)
	case EventFault:
		l.faults = append(l.faults, *e.Fault)
	}
	if !o.read() {
		return false
	}
	switch e.Kind {
	case EventPacket:
		o.cursor.AppendPacket(e.Seq, e.Slot, len(e.Packet))
		return true
	case EventEnd:
		note := *e
		o.cursor.End(e.Seq, &note)
	case EventGap, EventDown:
		note := *e
		o.cursor.AppendNote(e.Seq, &note)
	}
	return false
}

func (o *recorder) Backlog() (unread, held int) {
	if o.cursor == nil {
		return 0, 0
	}
	return o.cursor.Backlog(), o.cursor.Held()
}

func (o *recorder) Reclaim(n int) {
	if o.cursor == nil {
		return
	}
	if o.cursor.Reclaim(); o.cursor.Slots().Free() == 0 {
		o.cursor.Overtake(n)
	}
}

func (o *recorder) Abandon() bool {
	if o.read() {
		return o.cursor.Abandon()
	}
	o.cursor = nil
	return true
}

func recorderOf(st *Stream) *recorder { return st.Output().(*recorder) }

// attach attaches a cursor to a stream; nil if there is no memory.
func attach(st *Stream, block bool) *ring.Cursor {
	slots := st.Keep()
	if slots == nil {
		return nil
	}
	o := recorderOf(st)
	if o.cursor == nil {
		o.cursor = ring.NewLog(slots, 1<<bits.Len(uint(st.Span()+63)))
	}
	return o.cursor.Attach(block)
}

// detach removes it.
func detach(st *Stream, c *ring.Cursor) {
	o := recorderOf(st)
	if o.cursor.Detach(c); !o.read() {
		st.Unkeep()
	}
}

// heldFor is how long a packet is kept for a detached cursor.
const heldFor = 10 * time.Second

// resume continues after cursors have read, or time has passed.
func resume(r *Receiver, now Instant) {
	for _, st := range r.list {
		if o := recorderOf(st); o.cursor != nil && !st.life.finished {
			o.cursor.Reclaim()
			o.cursor.Expire(int64(now), int64(heldFor), max(1, st.Span()/8))
		}
	}
	r.Resume(now)
}
