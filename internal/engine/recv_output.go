package engine

import (
	"sync/atomic"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/internal/ring"
	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// output receives one stream's events. It passes them to handlers in place, and to the log if cursors read the stream.
// It implements topics.Output. Loop only.
type output struct {
	g        *group
	st       *reliable.Stream
	in       *topics.Stream
	handlers *inPlace   // nil: none so far
	log      *cursorLog // nil: no cursors
	held     *holds     // nil: the publisher does not report that this bus blocks it
	cutOff   atomic.Pointer[error]
}

// ownFault returns why this bus itself was cut off from the publisher when that was last lost; nil: it was not.
func (o *output) ownFault() error {
	if err := o.cutOff.Load(); err != nil {
		return *err
	}
	return nil
}

// outputOf returns the stream's output.
func outputOf(st *reliable.Stream) *output { return st.Output().(*output) }

// Open implements reliable.Sink.
func (g *group) Open(now reliable.Instant, st *reliable.Stream) (reliable.Output, reliable.Contents) {
	o := &output{g: g, st: st}
	o.in = g.in.Open(now, st, o)
	if g.inline {
		o.handle(st.Start())
	}
	return o, o.in
}

// handle makes handlers get events from sequence start on.
func (o *output) handle(start uint64) { o.handlers = newInPlace(o, start) }

func (o *output) Room() bool {
	return (o.handlers == nil || o.handlers.room()) && (o.log == nil || o.log.room())
}

func (o *output) Deliver(e *reliable.Event) (kept bool) {
	if e.Kind != reliable.EventPacket {
		o.emit(e)
	}
	if o.handlers != nil {
		o.handlers.deliver(e)
	}
	kept = o.log != nil && o.log.deliver(e)
	if o.handlers == nil { // otherwise they count
		o.countUnwanted(e, kept)
	}
	return kept
}

func (o *output) Backlog() (unread, held int) {
	if o.log == nil {
		return 0, 0
	}
	return o.log.log.Backlog(), o.log.log.Held()
}

func (o *output) Reclaim(n int) {
	if o.log != nil {
		o.log.reclaim(n)
	}
}

func (o *output) Abandon() bool {
	if o.log == nil || o.log.log.Cursors() == 0 {
		o.drop()
		return true
	}
	return o.log.log.Abandon()
}

// Note implements topics.Output. Collisions and unnamed topics are not in order: readers find collisions themselves.
func (o *output) Note(e *topics.Event) {
	g := o.g
	switch {
	case e.Kind != topics.EventCollision && e.Kind != topics.EventUnnamed:
		if o.handlers != nil {
			o.handlers.note(e)
		}
		if o.log != nil {
			o.log.append(e)
		}
	case g.suppressed:
	case e.Kind == topics.EventUnnamed:
		g.reportTooManyTopics(o.st.Origin())
		o.unnamed(events.CauseTooManyTopics)
	default:
		err := e.Collision
		g.l.say(&report.TopicCollision, "publisher", o.st.Publisher, "topic", err.Other, "subscribed", err.Known, "group", g.address)
		x := g.event(events.TopicCollision, o.st)
		x.Err = err
		g.l.event(x)
	}
}

// emit logs and emits events that concern all readers of the stream. A fault has no place among the packets, so it goes
// to all subscriptions that want faults at once.
func (o *output) emit(e *reliable.Event) {
	g := o.g
	if g.suppressed {
		return
	}
	switch e.Kind {
	case reliable.EventGap, reliable.EventEnd:
		if e.Count > 0 && g.wanting() {
			g.l.lossOf(o.st.Origin(), g.address, e.Seq, e.Count, e.LostBy())
			if g.l.cfg.Trace != nil {
				g.trace(o.st.Origin(), &Trace{Kind: TraceLost, First: e.Seq, Packets: e.Count, Cause: e.LostBy()})
			}
		}
	case reliable.EventFault:
		g.malformed(o.st, e.Fault)
	}
}

// unnamed reports to the subscriptions with patterns that topics are missing which may match.
func (o *output) unnamed(cause events.Cause) {
	g := o.g
	d := Delivery{Item: topics.Item{Unknown: true, Cause: cause}, From: o.st.Origin()}
	for s := range g.handlers() {
		if g.patterns.has(s) {
			s.lost(&d.Item, g.address, d.From)
			s.other(&d)
		}
	}
	for s := range g.patterns.subs {
		for _, f := range *s.feeds.Load() {
			if f.o == o {
				f.blind.Store(true)
				f.c.Wake()
			}
		}
	}
}

// attach adds a cursor that reads the stream, which has not ended, from here on. A slow cursor blocks the publisher if
// block is set and flow control allows it; otherwise it is overtaken. attach returns nil if there is no memory for a
// window.
func (o *output) attach(block bool) *ring.Cursor {
	slots := o.st.Keep()
	if slots == nil {
		return nil
	}
	if o.log == nil {
		o.log = newCursorLog(o.in, slots, o.st.Span())
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

// drop drops the log.
func (o *output) drop() {
	if o.log != nil {
		o.log = nil
		o.g.logs = dropped(o.g.logs, o)
	}
}

// squeezed reports whether slow cursors have taken half the stream's window or more. Then the publisher needs a status
// when they catch up (Receiver.Resume).
func (o *output) squeezed() bool { return o.st.Stalled() || o.log.log.Backlog() >= o.st.Span()/2 }

// full reports whether slow cursors leave no room for another packet.
func (o *output) full() bool {
	return o.st.Stalled() || o.log.log.Backlog()+o.log.log.Held() >= o.st.Span()
}

// tendLogs frees what cursors have read soon, so that the next packets get memory that is still in the processor's
// cache. It also frees what closed cursors have kept for too long.
func (g *group) tendLogs(now reliable.Instant) {
	for i := len(g.logs) - 1; i >= 0; i-- {
		o := g.logs[i]
		if o.st.Ended() {
			continue // freed with the last cursor
		}
		if o.log.tend(now, o.st.Span()); o.log.log.Cursors() == 0 && o.log.log.Held() == 0 {
			o.drop()
		}
	}
}
