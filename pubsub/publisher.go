package pubsub

import (
	"context"
	"sync/atomic"
)

// Publisher publishes on one topic. It is safe for concurrent use. It need not be
// closed: Bus.Close does that.
type Publisher struct {
	onTopic
	last atomic.Pointer[retained] // nil: messages are not retained
	_    [16]byte                 // to a whole line of the cache, for there may be many
}

// Publisher returns a publisher on topic, joining the topic's group as a
// sender at first use.
func (b *Bus) Publisher(topic string) (*Publisher, error) {
	p := new(Publisher)
	if err := p.make(b, topic); err != nil {
		return nil, err
	}
	return p, nil
}

// Publish sends msg, which it copies. It returns when the message is on its
// way or in a packet that leaves within Config.FlushAfter. Where flow control
// or the rate limit holds the publisher up it waits as long as ctx allows; an
// error means that the message was not published.
func (p *Publisher) Publish(ctx context.Context, msg []byte) error {
	return p.publish(ctx, msg, true)
}

// TryPublish is Publish that does not wait: it returns a *BackPressureError
// instead. A message of several packets is begun only if all of it has room; but
// where nothing else is under way that it could wait for, one that is larger
// than the window is sent as Publish would send it, and waits for its own room, as
// any large one waits for the rate limit.
func (p *Publisher) TryPublish(msg []byte) error {
	return p.publish(context.Background(), msg, false)
}

func (p *Publisher) publish(ctx context.Context, msg []byte, wait bool) error {
	if !p.open.Load() {
		return p.usable("publish on")
	}
	if r := p.last.Load(); r != nil {
		return p.failed("publish on", r.one(msg, func() error { return p.p.Publish(ctx, p.topic, msg, wait) }))
	}
	if err := p.p.Publish(ctx, p.topic, msg, wait); err != nil {
		return p.failed("publish on", err)
	}
	return nil
}

// PublishBatch publishes msgs in order, cheaper than one by one; what other goroutines publish may come
// between them. It returns
// how many were published; fewer than all come with an error.
func (p *Publisher) PublishBatch(ctx context.Context, msgs [][]byte) (int, error) {
	if err := p.usable("publish on"); err != nil {
		return 0, err
	}
	publish := func() (int, error) { return p.p.PublishBatch(ctx, p.topic, msgs) }
	if r := p.last.Load(); r != nil {
		n, err := r.publish(msgs, publish)
		return n, p.failed("publish on", err)
	}
	n, err := publish()
	return n, p.failed("publish on", err)
}

// Flush sends what waits for others in an open packet. Everything published
// before, by any publisher of the group, is then on the wire.
func (p *Publisher) Flush(ctx context.Context) error {
	if err := p.usable("flush"); err != nil {
		return err
	}
	return p.failed("flush", p.p.Flush(ctx))
}

// Drain flushes and waits until every subscriber that is present, or as many as the bus's
// flow control waits for, has everything; with FlowNone all.
func (p *Publisher) Drain(ctx context.Context) error {
	if err := p.usable("drain"); err != nil {
		return err
	}
	return p.failed("drain", p.p.Drain(ctx))
}

// Close flushes, as long as ctx allows, and ends the publisher: later calls return an
// error that matches net.ErrClosed. Other publishers go on, those of the same topic
// too. It is idempotent; where ctx ended first the messages are still sent, and a
// further call waits for that anew. Where the bus was closed, and messages of the group were never
// sent for that, it returns an *UnsentError.
//
// It frees nothing but what the Publisher itself takes: packet memory, and the
// group's membership, are all publishers' of the bus in the group, and are given back
// when the bus is closed. Subscribers hear of no end before that.
func (p *Publisher) Close(ctx context.Context) error {
	if p.topic == nil {
		return p.usable("close publisher of")
	}
	p.open.Store(false)
	p.dropState()
	return p.failed("close publisher of", p.p.FlushLast(ctx))
}
