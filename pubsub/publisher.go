package pubsub

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/reliable"
)

// Publisher publishes on one topic. It is safe for concurrent use. It need not be closed: Bus.Close does that.
type Publisher struct {
	p     *engine.Publication
	topic *reliable.Topic
	open  atomic.Bool // until Close; never of a zero value
	kept  kept
	last  atomic.Pointer[retained] // nil: messages are not retained
	_     [16]byte                 // to a whole line of the cache, for there may be many
}

// kept is the state that a publisher keeps for late joiners.
type kept struct {
	mu   sync.Mutex
	drop func() // under mu: ends it; nil: nothing is kept
}

// Publisher returns a publisher on topic, joining the topic's group as a sender at first use.
func (b *Bus) Publisher(topic string) (*Publisher, error) {
	if err := b.opened(); err != nil {
		return nil, failed("publisher of", topic, err)
	}
	if err := CheckTopic(topic); err != nil {
		return nil, err
	}
	publication, err := b.loop.Publication(b.Group(topic))
	if err != nil {
		return nil, failed("publisher of", topic, err)
	}
	p := &Publisher{p: publication}
	if p.topic, err = publication.Topic(topic); err != nil {
		return nil, failed("publisher of", topic, err)
	}
	p.open.Store(true)
	return p, nil
}

// Publish sends msg, which it copies. It returns when the message is on its way or in a packet that leaves within
// Config.FlushAfter. Where flow control or the rate limit holds the publisher up it waits as long as ctx allows; an
// error means that the message was not published.
func (p *Publisher) Publish(ctx context.Context, msg []byte) error {
	if p.append(msg) {
		return nil
	}
	return p.publish(ctx, msg, true)
}

// TryPublish is Publish that does not wait: it returns a *BackPressureError instead. A message of several packets is
// begun only if all of it has room; but where nothing else is under way that it could wait for, one that is larger than
// the window is sent as Publish would send it, and waits for its own room, as any large one waits for the rate limit.
func (p *Publisher) TryPublish(msg []byte) error {
	if p.append(msg) {
		return nil
	}
	return p.publish(context.Background(), msg, false)
}

// append publishes msg where that takes no more than a copy.
func (p *Publisher) append(msg []byte) bool {
	return p.open.Load() && p.last.Load() == nil && p.p.Append(p.topic, msg)
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

// PublishBatch publishes msgs in order, cheaper than one by one; what other goroutines publish may come between them.
// It returns how many were published; fewer than all come with an error.
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

// Close flushes, as long as ctx allows, and ends the publisher: later calls return an error that matches net.ErrClosed.
// Other publishers go on, those of the same topic too. It is idempotent; where ctx ended first the messages are still
// sent, and a further call waits for that anew. Where the bus was closed, and messages of the group were never sent for
// that, it returns an *UnsentError.
//
// It frees nothing but what the Publisher itself takes: packet memory, and the group's membership, are all publishers'
// of the bus in the group, and are given back when the bus is closed. Subscribers hear of no end before that.
func (p *Publisher) Close(ctx context.Context) error {
	if p.topic == nil {
		return p.usable("close publisher of")
	}
	p.open.Store(false)
	p.dropState()
	return p.failed("close publisher of", p.p.FlushLast(ctx))
}

// usable is why a call on a publisher that is not open cannot be made: the publisher is closed, or a zero value.
func (p *Publisher) usable(call string) error {
	switch {
	case p.open.Load():
		return nil
	case p.topic == nil:
		return failed(call, "", errNotMade)
	}
	return p.failed(call, errPublisherClosed)
}

// Topic is the publisher's topic.
func (p *Publisher) Topic() string { return p.topic.Name }

// Subscribers is how many buses with a subscription of the topic are known to be present. One with a pattern, or with
// very many topics, is known a round trip after the first call, or WaitSubscribers, has had it asked.
func (p *Publisher) Subscribers() int { return p.p.Receivers(p.topic.ID) }

// WaitSubscribers waits until n buses with a subscription of the topic are
// present: they get everything published from then on.
//
// It returns a *events.ConfigMismatchError where it would wait for what cannot come: if no subscriber of the topic is
// present and, since the call, another bus on the same addresses has said that it is configured such that it cannot
// hear this one, and that it may subscribe to the topic. A subscriber that searches in vain says so within some seconds
// of subscribing, and from time to time later, every half a minute.
func (p *Publisher) WaitSubscribers(ctx context.Context, n int) error {
	if err := p.usable("wait for subscribers of"); err != nil {
		return err
	}
	err := p.p.WaitReceivers(ctx, p.topic.ID, n)
	if err != nil && ctx != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %d of %d are present", publicError(err), p.Subscribers(), n)
	}
	return p.failed("wait for subscribers of", err)
}

// failed is the error of a call on the publisher's topic.
func (p *Publisher) failed(call string, err error) error { return failed(call, p.topic.Name, err) }
