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
}

// Publisher returns a publisher on topic, joining the topic's group as a
// sender at first use.
func (b *Bus) Publisher(topic string) (*Publisher, error) {
	if err := checkTopic(topic); err != nil {
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
	return closed(p.p.Publish(ctx, p.topic, msg, true), "publish")
}

// TryPublish is Publish that does not wait: it returns a *BackPressureError
// instead. A message of several packets is begun only if all of it has room; but
// where nothing else is under way that it could wait for, one that is larger
// than the window is sent as Publish would send it, and waits for its own room.
func (p *Publisher) TryPublish(msg []byte) error {
	return closed(p.p.Publish(context.Background(), p.topic, msg, false), "publish")
}

// PublishBatch publishes msgs in order, cheaper than one by one. It returns
// how many were published; fewer than all come with an error.
func (p *Publisher) PublishBatch(ctx context.Context, msgs [][]byte) (int, error) {
	n, err := p.p.PublishBatch(ctx, p.topic, msgs)
	return n, closed(err, "publish")
}

// Flush sends what waits for company in an open packet. Everything published
// before, by any publisher of the group, is then on the wire.
func (p *Publisher) Flush(ctx context.Context) error {
	return closed(p.p.Flush(ctx), "flush")
}

// Drain flushes and waits until every subscriber that is present has
// everything, whatever the flow control.
func (p *Publisher) Drain(ctx context.Context) error {
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

// ExclusivePublisher is a Publisher for one goroutine.
type ExclusivePublisher struct{ Publisher }

// ExclusivePublisher returns a publisher that one goroutine at a time may use.
// Others on the same topic or group are free to publish beside it.
func (b *Bus) ExclusivePublisher(topic string) (*ExclusivePublisher, error) {
	p, err := b.Publisher(topic)
	if err != nil {
		return nil, err
	}
	return &ExclusivePublisher{*p}, nil
}
