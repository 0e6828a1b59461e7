package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/fanfaremq/fanfare/examples/marketdata/book"
)

// progressEvery is how often a role tells how far it has come.
const progressEvery = 200 * time.Millisecond

// outlet is where the messages of one topic go: a *pubsub.Publisher.
type outlet interface {
	Publish(ctx context.Context, payload []byte) error
}

// publisher sends a feed to its topics and keeps the books that all
// subscribers must end with. It knows nothing of the network and is for one
// goroutine.
type publisher struct {
	outlets  []outlet // by index in the plan's topics
	number   []uint64 // of the next message of each
	paced    bool     // messages wait until they are due
	recorded *recording
	books    *book.Set
	clock    sparseClock
	state    publisherState
	buf      []byte
	joins    *joinable // who may join on the way; nil: nobody

	rateSince time.Time // of state.Rate
	rateFrom  uint64    // messages then
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

// prepare does before a run without a limit what it can of its work.
func (p *publisher) prepare(src source, total uint64) (err error) {
	if !p.paced && p.joins == nil { // who joins needs the books as they are now
		p.recorded, err = record(src, total, recordMost, p.books.Apply)
	}
	return err
}

// next returns the next message, and whether it is in the books.
func (p *publisher) next(src source) (msg []byte, topic int, due time.Duration, applied bool, err error) {
	if msg, topic = p.recorded.next(); msg != nil {
		return msg, topic, 0, true, nil
	}
	msg, topic, due, err = src.next()
	return msg, topic, due, false, err
}

// run publishes all of src and the ends of the topics. It calls report several
// times a second.
func (p *publisher) run(ctx context.Context, src source, report func(*publisherState) error) error {
	start := time.Now()
	for {
		msg, topic, due, applied, err := p.next(src)
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
		if err := p.send(ctx, topic, now, msg, applied); err != nil {
			return err
		}
		p.state.Published++
		if now.Sub(p.rateSince) >= progressEvery || p.joins.due(p.state.Published) {
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
func (p *publisher) send(ctx context.Context, topic int, now time.Time, msg []byte, applied bool) error {
	if p.joins != nil {
		p.joins.mu.Lock()
		defer p.joins.mu.Unlock()
	}
	if !applied {
		if err := p.books.Apply(msg); err != nil {
			return err
		}
	}
	if err := p.publish(ctx, topic, now, msg); err != nil || p.joins == nil {
		return err
	}
	return p.check(ctx, topic, now, msg)
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
	if dt := now.Sub(p.rateSince); !p.rateSince.IsZero() && dt > 0 {
		p.state.Rate = float64(p.state.Published-p.rateFrom) / dt.Seconds()
	}
	p.rateSince, p.rateFrom = now, p.state.Published
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
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if d < 5*time.Millisecond {
		time.Sleep(d) // too short to be worth a channel
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
