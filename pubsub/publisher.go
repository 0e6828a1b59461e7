package pubsub

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/fanfaremq/fanfare/internal/driver"
	"github.com/fanfaremq/fanfare/reliable"
)

// Publisher publishes on one topic. It is safe for concurrent use. It need not be
// closed: Bus.Close does that.
type Publisher struct {
	p      *driver.Publication
	topic  *reliable.Topic
	own    *driver.Exclusive // of an ExclusivePublisher
	closed atomic.Bool       // never set where own is
}

// Publisher returns a publisher on topic, joining the topic's group as a
// sender at first use.
func (b *Bus) Publisher(topic string) (*Publisher, error) {
	p := new(Publisher)
	if err := p.open(b, topic); err != nil {
		return nil, err
	}
	return p, nil
}

// open makes p a publisher of b's.
func (p *Publisher) open(b *Bus, topic string) (err error) {
	if err := CheckTopic(topic); err != nil {
		return err
	}
	if p.p, err = b.loop.Publication(b.Group(topic)); err == nil {
		p.topic, err = p.p.Topic(topic)
	}
	return failed("publisher of", topic, err)
}

// Topic is the publisher's topic.
func (p *Publisher) Topic() string { return p.topic.Name }

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
	if p.own != nil {
		return p.own.Publish(ctx, msg, wait)
	}
	if p.closed.Load() {
		return p.failed("publish on", driver.ErrReleased)
	}
	if err := p.p.Publish(ctx, p.topic, msg, wait); err != nil {
		return p.failed("publish on", err)
	}
	return nil
}

// failed is the error of a call on the publisher's topic.
func (p *Publisher) failed(call string, err error) error { return failed(call, p.topic.Name, err) }

// flushes makes a call that waits until something becomes of what was published.
func (p *Publisher) flushes(call string, ctx context.Context, own func(*driver.Exclusive, context.Context) error, shared func(*driver.Publication, context.Context) error) error {
	var err error
	switch {
	case p.own != nil:
		err = own(p.own, ctx)
	case p.closed.Load():
		err = driver.ErrReleased
	default:
		err = shared(p.p, ctx)
	}
	return p.failed(call, err)
}

// PublishBatch publishes msgs in order, cheaper than one by one. It returns
// how many were published; fewer than all come with an error.
func (p *Publisher) PublishBatch(ctx context.Context, msgs [][]byte) (int, error) {
	if p.own != nil {
		for i, m := range msgs {
			if err := p.Publish(ctx, m); err != nil {
				return i, err
			}
		}
		return len(msgs), nil
	}
	if p.closed.Load() {
		return 0, p.failed("publish on", driver.ErrReleased)
	}
	n, err := p.p.PublishBatch(ctx, p.topic, msgs)
	return n, p.failed("publish on", err)
}

// Flush sends what waits for company in an open packet. Everything published
// before, by any publisher of the group, is then on the wire.
func (p *Publisher) Flush(ctx context.Context) error {
	return p.flushes("flush", ctx, (*driver.Exclusive).Flush, (*driver.Publication).Flush)
}

// Drain flushes and waits until every subscriber that is present has
// everything, whatever the flow control.
func (p *Publisher) Drain(ctx context.Context) error {
	return p.flushes("drain", ctx, (*driver.Exclusive).Drain, (*driver.Publication).Drain)
}

// Subscribers is how many buses with a subscription of the topic are known to
// be present.
func (p *Publisher) Subscribers() int { return p.p.Receivers(p.topic.ID) }

// WaitSubscribers waits until n buses with a subscription of the topic are
// present: they get everything published from then on.
//
// It returns a *ConfigMismatchError where it would wait for what cannot come: if no
// subscriber of the topic is present and, since the call, another bus on the same
// addresses has said that it is configured such that it cannot hear this one, and that
// it may subscribe to the topic. A subscriber that searches in vain says so within
// some seconds of subscribing, and from time to time later, every half a minute.
func (p *Publisher) WaitSubscribers(ctx context.Context, n int) error {
	if p.closed.Load() {
		return p.failed("wait for subscribers of", driver.ErrReleased)
	}
	err := p.p.WaitReceivers(ctx, p.topic.ID, n)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %d of %d are present", publicError(err), p.Subscribers(), n)
	}
	return p.failed("wait for subscribers of", err)
}

// Close flushes, as long as ctx allows, and ends the publisher: later calls return an
// error that matches net.ErrClosed. Other publishers go on, those of the same topic
// too. It is idempotent; where ctx ended first the messages are still sent, and a
// further call waits for that anew.
//
// It frees nothing but what the Publisher itself takes: packet memory, and the
// group's membership, are all publishers' of the bus in the group, and are given back
// when the bus is closed. Subscribers hear of no end before that.
func (p *Publisher) Close(ctx context.Context) error {
	p.closed.Store(true)
	return p.failed("close publisher of", unlessClosed(p.p.Flush(ctx)))
}

// unlessClosed makes it no error that what is being closed is closed with its bus.
func unlessClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// ExclusivePublisher is a Publisher for one goroutine. It writes into packets of
// its own, without a lock or an atomic instruction: several times as fast as a
// Publisher, for 128 KiB of packet memory each.
//
// Publish, TryPublish, PublishBatch, Flush, Drain, Close and the Commit of a claim
// belong to that goroutine: two at once damage messages.
//
// Its messages keep their order among each other, but have none with those that
// other publishers of the bus publish at the same time.
type ExclusivePublisher struct{ Publisher }

// ExclusivePublisher returns a publisher that one goroutine at a time may use.
// Others on the same topic or group are free to publish beside it.
func (b *Bus) ExclusivePublisher(topic string) (*ExclusivePublisher, error) {
	p := new(ExclusivePublisher)
	err := p.open(b, topic)
	if err != nil {
		return nil, err
	}
	if p.own, err = p.p.Exclusive(p.topic, func(err error) error { return p.failed("publish on", err) }); err != nil {
		return nil, p.failed("publisher of", err)
	}
	return p, nil
}

// Publish is Publisher.Publish.
func (p *ExclusivePublisher) Publish(ctx context.Context, msg []byte) error {
	return p.own.Publish(ctx, msg, true)
}

// Close flushes, as long as ctx allows, and ends the publisher: later calls return an
// error that matches net.ErrClosed. It gives the publisher's packet memory to the next
// ExclusivePublisher of the group; the bus gives it back when it is closed. It is
// idempotent; where ctx ended first the publisher goes on.
func (p *ExclusivePublisher) Close(ctx context.Context) error {
	return p.failed("close publisher of", unlessClosed(p.own.Close(ctx)))
}
