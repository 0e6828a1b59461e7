package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/fanfaremq/fanfare/examples/marketdata/book"
)

// outlet publishes the messages of one topic: a *pubsub.Publisher.
type outlet interface {
	Publish(ctx context.Context, payload []byte) error
}

// publisher sends a feed to its topics, and builds the books that all subscribers must end with. It
// does not depend on the network. Except for writeState it is not safe for concurrent use.
type publisher struct {
	plan    *plan
	outlets []outlet // for each topic of the plan
	paced   bool     // messages wait until they are due
	buf     []byte
	meter   meter // for state.Rate
	state   publisherState

	// mu covers applying and publishing a message, so that the state of a topic (state.go) is the
	// books as of one message.
	mu      sync.Mutex
	books   *book.Set
	number  []uint64   // of the next message of each topic
	locates [][]uint16 // of each topic
}

func newPublisher(p *plan, outlets []outlet, paced bool) *publisher {
	locates := make([][]uint16, len(p.Topics))
	for locate, topic := range p.Locate {
		locates[topic] = append(locates[topic], locate)
	}
	return &publisher{
		plan:    p,
		outlets: outlets,
		paced:   paced,
		books:   new(book.Set),
		number:  make([]uint64, len(p.Topics)),
		locates: locates,
	}
}

// run publishes all of src. It calls report several times a second and at the end.
func (p *publisher) run(ctx context.Context, src *source, report func(*publisherState) error) error {
	start := time.Now()
	var now time.Time
	for {
		topic, due, err := src.next(p.plan)
		if err == io.EOF {
			return report(p.progress(time.Now()))
		}
		if err != nil {
			return err
		}
		if p.paced || p.state.Published%clockEvery == 0 {
			now = time.Now()
		}
		if wait := due - now.Sub(start); p.paced && wait > 0 {
			// A goroutine wakes up later than requested; messages due in the meantime are sent as a burst.
			if err := sleep(ctx, wait); err != nil {
				return err
			}
			now = time.Now()
		}
		if err := p.send(ctx, topic, now, src); err != nil {
			return err
		}
		if p.meter.due(now) {
			if err := report(p.progress(now)); err != nil {
				return err
			}
		}
	}
}

// send applies the latest message of src to the books and publishes it.
func (p *publisher) send(ctx context.Context, topic int, now time.Time, src *source) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !src.ahead {
		p.books.Apply(&src.msg)
	}
	p.buf = appendPayload(p.buf[:0], now, p.number[topic], src.raw)
	if err := p.outlets[topic].Publish(ctx, p.buf); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	p.number[topic]++
	p.state.Published++
	return nil
}

// progress updates the state for a report.
func (p *publisher) progress(now time.Time) *publisherState {
	p.state.Rate = p.meter.rate(now, p.state.Published)
	state := p.state
	return &state
}

// done is the final state, with the digest.
func (p *publisher) done() *publisherState {
	stats, orders := p.books.Stats()
	p.state.Orders, p.state.Unknown = orders, stats.Unknown
	p.state.Digest = p.books.Digest()
	state := p.state
	return &state
}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return ctx.Err()
}
