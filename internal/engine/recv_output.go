package engine

import (
	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/internal/ring"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// output is where one stream's events go: to handlers, in place, and to the log that
// cursors read, where there are any. It implements reliable.Output. Loop only.
type output struct {
	g        *group
	st       *reliable.Stream
	handlers *inPlace   // nil: none until now
	log      *cursorLog // nil: cursors need nothing of it
	held     *holds     // nil: the publisher says nothing of this bus
}

// outputOf is the stream's output.
func outputOf(st *reliable.Stream) *output { return st.Output().(*output) }

// Open implements reliable.Sink.
func (g *group) Open(st *reliable.Stream) reliable.Output {
	o := &output{g: g, st: st}
	if g.inline {
		o.handle(st.Start())
	}
	return o
}

// handle has handlers called from sequence start on.
func (o *output) handle(start uint64) { o.handlers = newInPlace(o.g, o.st, start) }

// Room implements reliable.Output.
func (o *output) Room() bool {
	return (o.handlers == nil || o.handlers.room()) && (o.log == nil || o.log.room())
}

// Deliver implements reliable.Output.
func (o *output) Deliver(e *reliable.Event) (kept bool) {
	if e.Kind != reliable.EventPacket {
		o.note(e)
	}
	if o.handlers != nil {
		o.handlers.deliver(e)
	}
	kept = o.log != nil && o.log.deliver(e)
	if o.handlers == nil { // else they count
		o.countUnwanted(e, kept)
	}
	return kept
}

// Backlog implements reliable.Output.
func (o *output) Backlog() (unread, held int) {
	if o.log == nil {
		return 0, 0
	}
	return o.log.log.Backlog(), o.log.log.Held()
}

// Reclaim implements reliable.Output.
func (o *output) Reclaim(n int) {
	if o.log != nil {
		o.log.reclaim(n)
	}
}

// Abandon implements reliable.Output.
func (o *output) Abandon() bool {
	if o.log == nil || o.log.log.Cursors() == 0 {
		o.drop()
		return true
	}
	return o.log.log.Abandon()
}

// note logs and emits what concerns all readers of the stream, and passes a fault to all that want faults, at once:
// it has no place among the packets.
func (o *output) note(e *reliable.Event) {
	g := o.g
	if g.suppressed {
		return
	}
	switch e.Kind {
	case reliable.EventGap, reliable.EventEnd:
		if e.Count > 0 && g.wanting() {
			g.l.lossOf(g, o.st, e.Seq, e.Count, e.LostBy())
			if g.l.cfg.Trace != nil {
				g.trace(o.st, &Trace{Kind: TraceLost, First: e.Seq, Packets: e.Count, Cause: e.LostBy()})
			}
		}
	case reliable.EventCollision:
		err := e.Collision
		g.l.say(&report.TopicCollision, "publisher", id(o.st.Publisher), "topic", err.Other, "subscribed", err.Known, "group", g.address)
		x := g.event(events.TopicCollision, o.st)
		x.Err = err
		g.l.event(x)
	case reliable.EventUnnamed:
		if e.Cause == events.CauseTooManyTopics {
			g.reportTooManyTopics(o.st)
		}
	case reliable.EventFault:
		g.malformed(o.st, e.Fault)
	case reliable.EventUnreadable:
		g.unreadable(o.st, e.Unreadable)
	}
}

// attach adds a cursor that reads the stream, which has not ended, from here on. With
// block it holds the publisher up when it is slow, as far as flow control goes;
// without, it is overtaken. It returns nil when there is no memory for a window.
func (o *output) attach(block bool) *ring.Cursor {
	slots := o.st.Keep()
	if slots == nil {
		return nil
	}
	if o.log == nil {
		o.log = newCursorLog(slots, o.st.Span())
		o.g.logs = append(o.g.logs, o)
	}
	return o.log.log.Attach(block)
}

// detach removes a cursor.
func (o *output) detach(c *ring.Cursor) {
	log := o.log.log
	if log.Detach(c); log.Cursors() > 0 {
		return
	}
	o.st.Unkeep()
	if o.log != nil && log.Held() == 0 {
		o.drop()
	}
}

// drop forgets the log.
func (o *output) drop() {
	if o.log != nil {
		o.log = nil
		o.g.logs = dropped(o.g.logs, o)
	}
}

// squeezed reports whether slow cursors have cost the stream half its window or more.
// The publisher needs a status when they catch up (Receiver.Resume).
func (o *output) squeezed() bool {
	return o.st.Stalled() || o.log.log.Backlog() >= o.st.Span()/2
}

// full reports whether slow cursors leave no room for another packet.
func (o *output) full() bool {
	return o.st.Stalled() || o.log.log.Backlog()+o.log.log.Held() >= o.st.Span()
}

// tendLogs frees what cursors have read soon, so that the next packets find memory that is still in the processor's
// cache, and what closed cursors have held for too long.
func (g *group) tendLogs(now reliable.Instant) {
	for i := len(g.logs) - 1; i >= 0; i-- {
		o := g.logs[i]
		if o.st.Ended() {
			continue // all goes with the last cursor
		}
		if o.log.tend(now, o.st.Span()); o.log.log.Cursors() == 0 && o.log.log.Held() == 0 {
			o.drop()
		}
	}
}
