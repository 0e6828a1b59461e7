package sim

import (
	"context"
	"errors"

	"github.com/fanfaremq/fanfare/internal/engine"
)

// writer is one writing goroutine of a publisher.
type writer struct {
	p       *publisher
	index   int
	left    int // messages left to be written in this life
	serial  uint64
	blocked bool // it waits for room
	batch   [][]byte
}

// run writes bursts of messages, with pauses. It is a task.
func (w *writer) run() {
	p := w.p
	if p.o.Await > 0 {
		w.check(p.pub.WaitReceivers(background, 0, p.o.Await))
	}
	p.pause(p.sim.net.upTo(p.o.Gap))
	for w.left > 0 {
		for quota := min(w.left, max(1, p.o.Burst)); quota > 0; {
			n := w.write(quota)
			quota -= n
			w.left -= n
		}
		if w.left == 0 && p.closing {
			return
		}
		if p.o.Linger == 0 {
			w.blocked = true
			err := p.pub.Flush(background)
			w.blocked = false
			w.check(err)
		}
		if w.left > 0 {
			p.pause(p.o.Gap)
		}
	}
}

// check reports an error of a call.
func (w *writer) check(err error) {
	if err != nil {
		w.p.sim.fail("publisher %d, writer %d: %v", w.p.index, w.index, err)
	}
}

// write writes up to quota messages, and returns their number.
func (w *writer) write(quota int) (n int) {
	p := w.p
	w.blocked = true
	defer func() { w.blocked = false }()
	w.batch = w.batch[:0]
	first := message{}
	for n < quota {
		m, large := w.draw()
		data := make([]byte, m.size)
		p.sim.o.Content.fill(data, m.key)
		plain := !m.isRequest && !large && p.o.Linger == 0
		if len(w.batch) > 0 && (!plain || m.topic != first.topic) {
			w.publishBatch(first.topic)
		}
		n++
		p.t.write(w.index, m)
		switch {
		case m.isRequest:
			w.request(m, data)
		case plain:
			w.batch, first = append(w.batch, data), m
		default:
			w.publish(m, data, large && p.sim.net.draw(p.o.Abandon))
		}
	}
	if len(w.batch) > 0 {
		w.publishBatch(first.topic)
	}
	return n
}

// publishBatch publishes the messages in batch.
func (w *writer) publishBatch(topic int) {
	_, err := w.p.pub.PublishBatch(background, w.p.topics[topic], w.batch)
	w.check(err)
	w.batch = w.batch[:0]
}

// publish publishes a message. With impatient it gives up if it has to wait for long.
func (w *writer) publish(m message, data []byte, impatient bool) {
	p, ctx := w.p, background
	if impatient {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		p.After(p.sim.net.upTo(p.o.Gap), cancel)
	}
	err := p.pub.Publish(ctx, p.topics[m.topic], data, true)
	if impatient && errors.Is(err, context.Canceled) {
		p.t.unwrite(w.index)
		p.sim.report.Abandoned++
		return
	}
	w.check(err)
}

// request publishes a message as a request, or without a subscriber as another message.
func (w *writer) request(m message, data []byte) {
	p := w.p
	q, err := p.pub.Request(background, p.topics[m.topic], data)
	switch {
	case errors.Is(err, engine.ErrNoResponders):
		p.t.rewrite(w.index).isRequest = false
		w.publish(m, data, false)
	case err != nil:
		w.check(err)
	default:
		r := &openRequest{q: q, key: m.key, arrived: make(map[uint64]bool)}
		p.openRequests = append(p.openRequests, r)
		p.Go(func() { p.takeReplies(r) })
	}
}

// draw generates the next message.
func (w *writer) draw() (m message, large bool) {
	o, n := w.p.o, w.p.sim.net
	w.serial++
	if c := w.p.sim.o.Content; c != nil {
		return c.message(w.serial - 1), false
	}
	large = n.draw(o.Large)
	size := o.Size[0] + n.rng.IntN(o.Size[1]-o.Size[0]+1)
	if large {
		size = 1 + n.rng.IntN(o.LargeBytes)
	}
	if o.Writers > 1 {
		size = max(size, 8) // room for the writer's number in the content
	}
	return message{
		key:       n.rng.Uint64()<<8 | uint64(w.index),
		size:      size,
		topic:     n.rng.IntN(o.Topics),
		isRequest: n.draw(o.Requests),
	}, large
}
