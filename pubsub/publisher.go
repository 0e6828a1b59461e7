package pubsub

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/internal/topics"
)

// Publisher publishes on one topic. It is safe for concurrent use. It need not be closed: Bus.Close does that.
type Publisher struct {
	p     *engine.Publication
	topic *topics.Topic
	open  atomic.Bool // true until Close; false in a zero value
	// released: it has sent everything, and the topic may be forgotten
	released atomic.Bool
	kept     kept
	last     atomic.Pointer[retained] // nil: messages are not retained
	_        [16]byte                 // pads to a cache line, as there may be many publishers
}

// kept is the state that a publisher keeps for late joiners.
type kept struct {
	mu   sync.Mutex
	drop func() // under mu: stops keeping state; nil: no state is kept
}

// Publisher returns a publisher on topic. The first one joins the topic's group as a sender.
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

// Publish sends a copy of msg. It returns when the message was sent, or is in a packet that will be sent within
// Config.FlushAfter. If flow control or the rate limit blocks the publisher, it waits until ctx ends. After an
// error the message was not published.
func (p *Publisher) Publish(ctx context.Context, msg []byte) error {
	if p.append(msg) {
		return nil
	}
	return p.publish(ctx, msg, true)
}

// TryPublish is Publish that does not wait: it returns a *BackPressureError instead. A message of several packets is
// sent only if all of it has room. Exceptions: a message larger than the window, when no other data is in flight,
// waits for room as Publish does; and every large message waits for the rate limit.
func (p *Publisher) TryPublish(msg []byte) error {
	if p.append(msg) {
		return nil
	}
	return p.publish(context.Background(), msg, false)
}

// append publishes msg if that takes no more than a copy.
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

// PublishBatch publishes msgs in order, at less cost than one by one; messages of other goroutines may come between
// them. It returns the number published, with an error if that is fewer than all.
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

// Flush sends the messages that wait in an open packet. Everything published before, by any publisher of the group,
// has then been sent.
func (p *Publisher) Flush(ctx context.Context) error {
	if err := p.usable("flush"); err != nil {
		return err
	}
	return p.failed("flush", p.p.Flush(ctx))
}

// Drain flushes, and waits until every present subscriber has received everything, or as many as the bus's flow
// control waits for; with FlowNone all.
func (p *Publisher) Drain(ctx context.Context) error {
	if err := p.usable("drain"); err != nil {
		return err
	}
	return p.failed("drain", p.p.Drain(ctx))
}

// Close flushes, as long as ctx allows, and ends the publisher: later calls return an error that matches
// net.ErrClosed. Other publishers are not affected, even on the same topic. It is idempotent; if ctx ends first, the
// messages are still sent, and another call waits for them again. If the bus was closed before all messages of the
// group were sent, it returns an *UnsentError.
//
// It frees only the Publisher itself, and the topic, when many others were published since: its next message then has
// a number that is a multiple of 2^40. All publishers of the bus in the group share packet memory and the membership,
// which are released when the bus is closed. Subscribers see no end of the stream before that.
func (p *Publisher) Close(ctx context.Context) error {
	if p.topic == nil {
		return p.usable("close publisher of")
	}
	p.open.Store(false)
	p.dropState()
	if err := p.p.FlushLast(ctx); err != nil {
		return p.failed("close publisher of", err)
	}
	if !p.released.Swap(true) {
		p.p.Release(p.topic)
	}
	return nil
}

// usable returns an error if the publisher is closed or a zero value.
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

// Subscribers is the number of buses with a subscription to the topic that are known to be present. Buses with a
// pattern or very many topics are counted a round trip after the first call of Subscribers or WaitSubscribers, which
// makes the bus ask them.
func (p *Publisher) Subscribers() int { return p.p.Receivers(p.topic.ID) }

// WaitSubscribers waits until n buses with a subscription to the topic are present: they receive everything published
// from then on.
//
// It returns an *events.ConfigMismatchError if it would wait in vain: no subscriber of the topic is present and,
// since the call, another bus on the same addresses reported a configuration with which it cannot receive from this
// one, and that it may subscribe to the topic. A subscriber that finds no publisher reports its configuration some
// seconds after subscribing, and then about every half a minute.
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
