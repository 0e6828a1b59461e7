package engine

import (
	"bytes"

	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// inPlace calls handlers with what a stream delivers. When the turn's time is used up (budget) it stops, if need be in
// the middle of a packet, and continues in the next turn. Loop only.
type inPlace struct {
	g     *group
	st    *reliable.Stream
	rd    *topics.Reader
	since uint64   // all patterns' topics are wanted from this sequence on
	rest  []byte   // rest of the packet in which it stopped
	next  []func() // deliver the events since it stopped
	lost  bool     // the loss of the publisher was reported, and it has not come back
}

// newInPlace returns an inPlace that reads from sequence start on.
func newInPlace(o *output, start uint64) *inPlace {
	g, st := o.g, o.st
	p := &inPlace{g: g, st: st, rd: topics.NewReader(start, g.l.cfg.MaxMessage), since: start}
	p.rd.Count(p)
	g.l.trust(st.Publisher, p.rd)
	if st.Joining() {
		p.rd.AwaitState()
	}
	g.reportFaults(st, p.rd)
	for _, t := range g.topics {
		if t.handlers.Len() > 0 && o.in.Collided(t.id) == nil {
			p.rd.Want(t.id, t.name, t.route())
			g.begin(st, p.rd, t)
		}
	}
	return p
}

func (p *inPlace) room() bool { return p.g.l.budget.room() }

// stopped reports whether it has stopped in the middle of a packet.
func (p *inPlace) stopped() bool { return p.g.l.budget.stopped == p }

// deliver handles the stream's next event, or queues it while stopped.
func (p *inPlace) deliver(e *reliable.Event) {
	switch {
	case p.g.suppressed:
	case p.stopped():
		x := *e
		x.Packet = bytes.Clone(e.Packet)
		p.next = append(p.next, func() { p.deliver(&x) })
	default:
		p.take(e)
	}
}

// note is deliver for an event of the message layer.
func (p *inPlace) note(e *topics.Event) {
	switch {
	case p.g.suppressed:
	case p.stopped():
		x := *e
		x.Runs = bytes.Clone(e.Runs)
		p.next = append(p.next, func() { p.note(&x) })
	default:
		p.rd.TakeNote(e)
		p.read()
	}
}

// take calls the handlers with an event.
func (p *inPlace) take(e *reliable.Event) {
	switch {
	case e.Kind == reliable.EventPacket: // nearly always
		p.rd.Take(e)
		p.read()
		return
	case e.Kind == reliable.EventGap && !p.g.wanting():
		return // no subscription misses it
	}
	p.rd.Take(e)
	p.read()
	if e.Kind == reliable.EventDown || e.Kind == reliable.EventEnd {
		p.down(e.Cause)
	}
}

// read calls the handlers for what the reader has, as long as there is time.
func (p *inPlace) read() {
	if !p.dispatch() {
		p.rest = p.rd.Retain(p.rest[:0])
		p.g.l.budget.stopped = p
	}
}

// resume continues where it stopped.
func (p *inPlace) resume() {
	if !p.g.suppressed && !p.dispatch() {
		return
	}
	p.g.l.budget.stopped = nil
	next := p.next
	p.next = nil
	for _, deliver := range next {
		deliver()
	}
}

// down passes the end or loss of a publisher to the handlers of such events.
func (p *inPlace) down(cause events.Cause) {
	if cause != events.CauseNone && p.lost {
		return // reported already
	}
	p.lost = true
	p.g.announce(p.g.down(cause, p.st))
}

// dispatch calls the handlers for what the reader has. It returns false if it stopped before the end.
func (p *inPlace) dispatch() bool {
	l, rd, d := p.g.l, p.rd, &p.g.d
	l.watchdog.arm()
	for {
		if !p.runs() {
			return false
		}
		if rd.Through() || !rd.Next(&d.Item) {
			return true
		}
		if d.Gap() {
			p.gap(d)
			continue
		}
		if d.Request {
			if p.request(d); l.budget.used {
				return false
			}
			continue
		}
		if d.State != reliable.StateOfNone {
			p.state(d)
			continue
		}
		p.message(d.Topic, d.Number, d.Data)
		if !p.run() {
			return false
		}
	}
}

// runs calls the handlers for the messages that follow the delivered ones in runs. It returns false if it stopped
// before the end.
func (p *inPlace) runs() bool {
	for !p.rd.Through() {
		if !p.g.l.budget.used {
			if t, number, msg := p.rd.One(); t != nil {
				p.message(t, number, msg)
				continue
			}
		}
		if !p.rd.Open() {
			break
		}
		if !p.run() {
			return false
		}
	}
	return true
}

// message calls the topic's handlers for one message.
func (p *inPlace) message(t *topics.Track, number uint64, msg []byte) {
	p.g.l.watchdog.called.Store(markOf(t.ID))
	for _, s := range handlersOf(t) {
		s.handler.Message(p.st.Origin(), t, number, msg)
		s.got++
	}
	p.g.l.handled(1)
}

// request calls the topic's handlers for a request.
func (p *inPlace) request(d *Delivery) {
	d.From, d.Event, d.Err = p.st.Origin(), nil, nil
	d.asks(p.g)
	for _, s := range handlersOf(d.Topic) {
		s.other(d)
		s.got++
	}
	p.g.l.handled(1)
}

// state calls the topic's handlers for its state.
func (p *inPlace) state(d *Delivery) {
	d.From = p.st.Origin()
	for _, s := range handlersOf(d.Topic) {
		s.other(d)
	}
	p.g.l.handled(1)
}

// gap calls the topic's handlers for a gap, or all handlers if the topic is unknown.
func (p *inPlace) gap(d *Delivery) {
	d.From = p.st.Origin()
	if d.Topic == nil {
		for s := range p.g.handlers() {
			s.lost(&d.Item, p.g.address, d.From)
			s.other(d)
		}
	} else {
		for _, s := range handlersOf(d.Topic) {
			s.lost(&d.Item, p.g.address, d.From)
			s.other(d)
		}
	}
	p.g.l.handled(1)
}

// run calls a topic's handlers for the rest of a run, in pieces if the clock must be read in between. Nearly all
// messages take this way. It returns false if it stopped before the end.
func (p *inPlace) run() bool {
	l, rd := p.g.l, p.rd
	for {
		t, body, step, number := rd.Run()
		if t == nil {
			return true
		}
		if l.budget.used {
			return false
		}
		piece := l.budget.piece(body)
		l.watchdog.called.Store(markOf(t.ID))
		rest, next := piece, number
		for _, s := range handlersOf(t) {
			rest, next = s.handler.Run(p.st.Origin(), t, number, piece, step, rd.MaxMessage())
			s.got += next - number
		}
		rd.Took(body[len(piece)-len(rest):], next)
		l.handled(next - number)
		if len(piece) == len(body) || next == number {
			return true
		}
	}
}
