package pubsub

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/reliable"
)

// onTopic is what Publisher and ExclusivePublisher have in common: the topic, and who
// subscribes to it.
type onTopic struct {
	p     *engine.Publication
	topic *reliable.Topic
	open  atomic.Bool // until Close; never of a zero value
	kept  kept
}

// kept is what a publisher keeps for those who join.
type kept struct {
	mu   sync.Mutex
	drop func() // under mu: ends it; nil: nothing is kept
}

// make makes p a publisher of b's.
func (p *onTopic) make(b *Bus, topic string) (err error) {
	if err := b.opened(); err != nil {
		return failed("publisher of", topic, err)
	}
	if err := CheckTopic(topic); err != nil {
		return err
	}
	if p.p, err = b.loop.Publication(b.Group(topic)); err == nil {
		p.topic, err = p.p.Topic(topic)
	}
	p.open.Store(err == nil)
	return failed("publisher of", topic, err)
}

// usable is why a call on a publisher that is not open cannot be made: the publisher is closed, or a zero value.
func (p *onTopic) usable(call string) error {
	switch {
	case p.open.Load():
		return nil
	case p.topic == nil:
		return failed(call, "", errNotMade)
	}
	return p.failed(call, engine.ErrReleased)
}

// Topic is the publisher's topic.
func (p *onTopic) Topic() string { return p.topic.Name }

// Subscribers is how many buses with a subscription of the topic are known to
// be present. One with a pattern, or with very many topics, is known a round trip after the first
// call, or WaitSubscribers, has had it asked.
func (p *onTopic) Subscribers() int { return p.p.Receivers(p.topic.ID) }

// WaitSubscribers waits until n buses with a subscription of the topic are
// present: they get everything published from then on.
//
// It returns a *ConfigMismatchError where it would wait for what cannot come: if no
// subscriber of the topic is present and, since the call, another bus on the same
// addresses has said that it is configured such that it cannot hear this one, and that
// it may subscribe to the topic. A subscriber that searches in vain says so within
// some seconds of subscribing, and from time to time later, every half a minute.
func (p *onTopic) WaitSubscribers(ctx context.Context, n int) error {
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
func (p *onTopic) failed(call string, err error) error { return failed(call, p.topic.Name, err) }
