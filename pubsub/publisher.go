package pubsub

import (
	"context"

	"github.com/fanfaremq/fanfare/internal/driver"
	"github.com/fanfaremq/fanfare/reliable"
)

// Publisher publishes on one topic. It is safe for concurrent use. It holds
// nothing that needs closing: the bus does.
type Publisher struct {
	bus   *Bus
	p     *driver.Publication
	topic *reliable.Topic
	own   *driver.Exclusive // of an ExclusivePublisher
}

// Publisher returns a publisher on topic, joining the topic's group as a
// sender at first use.
func (b *Bus) Publisher(topic string) (*Publisher, error) {
	if err := CheckTopic(topic); err != nil {
		return nil, err
	}
	p, err := b.loop.Publication(b.Group(topic))
	if err != nil {
		return nil, closed(err, "publisher")
	}
	t, err := p.Topic(topic)
	if err != nil {
		return nil, err
	}
	return &Publisher{bus: b, p: p, topic: t}, nil
}

// Topic is the publisher's topic.
func (p *Publisher) Topic() string { return p.topic.Name }

// Publish sends msg, which it copies. It returns when the message is on its
// way or in a packet that leaves within Config.FlushAfter. Where flow control
// or the rate limit holds the publisher up it waits as long as ctx allows; an
// error means that the message was not published.
func (p *Publisher) Publish(ctx context.Context, msg []byte) error {
	return closed(p.publish(ctx, msg, true), "publish")
}

// TryPublish is Publish that does not wait: it returns a *BackPressureError
// instead. A message of several packets is begun only if all of it has room; but
// where nothing else is under way that it could wait for, one that is larger
// than the window is sent as Publish would send it, and waits for its own room, as
// any large one waits for the rate limit.
func (p *Publisher) TryPublish(msg []byte) error {
	return closed(p.publish(context.Background(), msg, false), "publish")
}

func (p *Publisher) publish(ctx context.Context, msg []byte, wait bool) error {
	if p.own != nil {
		return p.own.Publish(ctx, msg, wait)
	}
	return p.p.Publish(ctx, p.topic, msg, wait)
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
	n, err := p.p.PublishBatch(ctx, p.topic, msgs)
	return n, closed(err, "publish")
}

// Flush sends what waits for company in an open packet. Everything published
// before, by any publisher of the group, is then on the wire.
func (p *Publisher) Flush(ctx context.Context) error {
	if p.own != nil {
		return closed(p.own.Flush(ctx), "flush")
	}
	return closed(p.p.Flush(ctx), "flush")
}

// Drain flushes and waits until every subscriber that is present has
// everything, whatever the flow control.
func (p *Publisher) Drain(ctx context.Context) error {
	if p.own != nil {
		return closed(p.own.Drain(ctx), "drain")
	}
	return closed(p.p.Drain(ctx), "drain")
}

// Subscribers is how many buses with a subscription of the topic are known to
// be present.
func (p *Publisher) Subscribers() int { return p.p.Receivers(p.topic.ID) }

// WaitSubscribers waits until n buses with a subscription of the topic are
// present: they get everything published from then on.
func (p *Publisher) WaitSubscribers(ctx context.Context, n int) error {
	return closed(p.p.WaitReceivers(ctx, p.topic.ID, n), "waiting for subscribers")
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
	p, err := b.Publisher(topic)
	if err != nil {
		return nil, err
	}
	if p.own, err = p.p.Exclusive(p.topic, func(err error) error { return closed(err, "publish") }); err != nil {
		return nil, closed(err, "publisher")
	}
	return &ExclusivePublisher{*p}, nil
}

// Publish is Publisher.Publish.
func (p *ExclusivePublisher) Publish(ctx context.Context, msg []byte) error {
	return p.own.Publish(ctx, msg, true)
}

// Close flushes and gives the publisher's packet memory back, which otherwise
// the bus does when it is closed. It waits for room as long as ctx allows.
func (p *ExclusivePublisher) Close(ctx context.Context) error {
	return closed(p.own.Close(ctx), "close")
}
