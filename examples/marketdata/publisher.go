package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/fanfaremq/fanfare/examples/marketdata/book"
	"github.com/fanfaremq/fanfare/examples/marketdata/itch"
)

// outlet is where the messages of one topic go: a *pubsub.Publisher.
type outlet interface {
	Publish(ctx context.Context, payload []byte) error
}

// publisher sends a feed to its topics and keeps the books that all
// subscribers must end with. It knows nothing of the network and is for one
// goroutine.
type publisher struct {
	outlets []outlet // by index in the plan's topics
	number  []uint64 // of the next message of each
	paced   bool     // messages wait until they are due
	books   *book.Set
	booked  uint64       // messages that are in the books before they are published
	msg     itch.Message // the latest that was applied
	clock   sparseClock
	state   publisherState
	buf     []byte
	joins   *joinable // nil: no subscribers join on the way
	meter   meter     // of state.Rate
}

func newPublisher(outlets []outlet, paced bool) *publisher {
	return &publisher{
		outlets: outlets,
		number:  make([]uint64, len(outlets)),
		paced:   paced,
		books:   book.NewSet(),
		clock:   newClock(paced),
	}
}

// run publishes all of src and the ends of the topics. It calls report several
// times a second.
func (p *publisher) run(ctx context.Context, src source, report func(*publisherState) error) error {
	start := time.Now()
	for {
		msg, topic, due, err := src.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		now := p.clock.time()
		if p.paced {
			if wait := due - now.Sub(start); wait > 0 {
				// A goroutine wakes up some time after it asked to; what has
				// become due meanwhile goes out as a burst.
				if err := sleep(ctx, wait); err != nil {
					return err
				}
				now = time.Now()
			}
		}
		if err := p.send(ctx, topic, now, msg); err != nil {
			return err
		}
		p.state.Published++
		if p.meter.due(now) || p.joins.due(p.state.Published) {
			if err := report(p.progress(now)); err != nil {
				return err
			}
		}
	}
	if p.joins != nil {
		if err := report(p.progress(time.Now())); err != nil {
			return err
		}
		if err := p.joins.wait(ctx); err != nil {
			return err
		}
	}
	for topic := range p.outlets {
		if err := p.publish(ctx, topic, time.Now(), nil); err != nil {
			return err
		}
	}
	return nil
}

// send brings a message into the books, if it is not there yet, and publishes it.
func (p *publisher) send(ctx context.Context, topic int, now time.Time, msg []byte) error {
	if p.joins != nil {
		p.joins.mu.Lock()
		defer p.joins.mu.Unlock()
	}
	if p.state.Published >= p.booked {
		if err := p.apply(msg); err != nil {
			return err
		}
	}
	if err := p.publish(ctx, topic, now, msg); err != nil || p.joins == nil {
		return err
	}
	return p.check(ctx, topic, now)
}

// apply brings a message into the books.
func (p *publisher) apply(msg []byte) error {
	err := p.msg.Parse(msg)
	if err == nil {
		p.books.Apply(&p.msg)
	}
	return err
}

// publish sends one message, or the end of a topic.
func (p *publisher) publish(ctx context.Context, topic int, now time.Time, msg []byte) error {
	p.buf = appendPayload(p.buf[:0], now, p.number[topic], msg)
	if err := p.outlets[topic].Publish(ctx, p.buf); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	p.number[topic]++
	return nil
}

// progress brings the state up to date for a report.
func (p *publisher) progress(now time.Time) *publisherState {
	p.state.Rate = p.meter.rate(now, p.state.Published)
	state := p.state
	return &state
}

// done is the last state, with the digest.
func (p *publisher) done() *publisherState {
	stats, orders := p.books.Stats()
	p.state.Orders, p.state.Unknown = orders, stats.Unknown
	p.state.Digest = p.books.Digest()
	state := p.state
	return &state
}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	if d < 5*time.Millisecond {
		time.Sleep(d) // too short to be worth a channel
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return ctx.Err()
}
