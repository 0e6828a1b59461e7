package sim

import (
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// writer is one writing goroutine of a publisher.
type writer struct {
	p       *publisher
	index   int
	w       *reliable.Writer
	left    int // messages left to be written in this life
	quota   int // of these, the messages due now
	serial  uint64
	begun   bool // message has been drawn
	message message
	offset  int // written bytes of a large message
	large   bool
	whole   []byte
	flushAt reliable.Instant // when to flush the open packet, by the node's clock; 0: flushed
	flush   bool             // flush it now, when flow control and the rate limit allow
	waiting bool             // a burst is scheduled
}

func (w *writer) schedule(d time.Duration) {
	w.waiting = true
	s := w.p.sim
	s.q.push(event{at: s.now.Add(d), kind: write, node: w.p.index, arg: uint32(w.index)<<16 | uint32(w.p.life)})
}

// burst makes the next messages due.
func (w *writer) burst() {
	w.waiting = false
	w.quota = min(w.left, max(1, w.p.o.Burst))
}

// run writes due messages as far as there is room, and reports whether it wrote any.
func (w *writer) run(now reliable.Instant) bool {
	s := w.p.s
	progress := false
	wrote := false
	if w.flushAt != 0 && now >= w.flushAt {
		w.flush, w.flushAt = true, 0
	}
	for w.quota > 0 {
		if !w.begun {
			w.draw()
		}
		if w.put() {
			progress, wrote = true, true
			w.begun = false
			w.quota--
			w.left--
			continue
		}
		at := w.offset
		r := s.Assign(now, w.w, false)
		w.p.grow()
		granted := s.Grant(w.w)
		if !granted {
			s.Short(now)
		}
		if !granted || w.w.Full() {
			w.flush = w.flush || wrote // more packets follow: do not linger
			if w.large && w.offset > 0 && w.w.Pending() && r == events.ReasonFlow && w.p.sim.net.draw(w.p.o.Abandon) {
				w.abandon()
				continue
			}
			return progress
		}
		if at == w.offset {
			progress = true
		}
	}
	if wrote && w.p.o.Linger > 0 {
		w.flushAt = now.Add(w.p.o.Linger)
	}
	w.flush = w.flush || wrote && w.p.o.Linger == 0
	if w.flush {
		lead := s.Lead()
		w.flush = s.Assign(now, w.w, true) != events.ReasonNone
		progress = progress || s.Lead() > lead
	}
	if w.left > 0 && w.quota == 0 && !w.waiting {
		w.schedule(w.p.o.Gap)
	}
	return progress
}

// draw generates the next message.
func (w *writer) draw() {
	o, n := w.p.o, w.p.sim.net
	w.begun, w.offset = true, 0
	w.serial++
	if c := w.p.sim.o.Content; c != nil {
		w.large, w.message = false, c.message(w.serial-1)
		return
	}
	w.large = n.draw(o.Large)
	size := o.Size[0] + n.rng.IntN(o.Size[1]-o.Size[0]+1)
	size = min(size, w.p.s.MaxInBlock())
	if w.large {
		size = 1 + n.rng.IntN(o.LargeBytes)
	}
	if o.Writers > 1 {
		size = max(size, 8) // room for the writer's number in the content
	}
	w.message = message{
		key:       n.rng.Uint64()<<8 | uint64(w.index),
		size:      size,
		topic:     n.rng.IntN(o.Topics),
		isRequest: n.draw(o.Requests),
	}
}

// put writes the message, or as much of it as fits; it reports whether the message is complete.
func (w *writer) put() bool {
	m := &w.message
	t := w.p.topics[m.topic]
	if w.large {
		return w.putLarge(t)
	}
	w.whole = append(w.whole[:0], make([]byte, m.size)...)
	w.p.sim.o.Content.fill(w.whole, m.key)
	if !w.append(t) {
		return false
	}
	w.p.t.write(w.index, *m)
	return true
}

func (w *writer) putLarge(t *reliable.Topic) bool {
	m := &w.message
	if w.offset == 0 {
		w.whole = append(w.whole[:0], make([]byte, m.size)...)
		w.p.sim.o.Content.fill(w.whole, m.key)
	}
	if w.offset == 0 && m.size <= w.p.s.MaxInBlock() {
		if !w.append(t) {
			return false
		}
		w.p.t.write(w.index, *m)
		return true
	}
	for w.offset < m.size {
		next := w.appendFragment(t)
		if next == w.offset {
			return false
		}
		if w.offset == 0 {
			w.p.t.write(w.index, *m)
		}
		w.offset = next
	}
	return true
}

// midMessage reports whether some, but not all, fragments of a message are written.
func (w *writer) midMessage() bool { return w.large && w.begun && w.offset > 0 }

// abandon ends a large message before it is complete: no subscriber may receive it.
func (w *writer) abandon() {
	w.p.s.Abandon(w.w)
	w.p.t.unwrite(w.index)
	w.begun, w.flush = false, true
	w.quota--
	w.left--
	w.p.sim.report.Abandoned++
}
