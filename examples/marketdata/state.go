package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/examples/marketdata/book"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// With -join subscribers join in mid-feed. They begin with the state of each topic, its books as of
// some message, and continue with the next one. The first record of a topic's state is
//
//	number of the topic's next message, 8 bytes
//
// and each following record is the book of one stock:
//
//	stock locate, 2 bytes | book, encoded by book.AppendState
const (
	stateNumber = 8
	stateLocate = 2
)

// writeState writes the state of a topic. The library calls it in a separate goroutine.
func (p *publisher) writeState(topic int, w *pubsub.StateWriter) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	record := binary.BigEndian.AppendUint64(nil, p.number[topic])
	if err := w.Write(record); err != nil {
		return err
	}
	for _, locate := range p.locates[topic] {
		b := p.books.Book(locate)
		if b == nil {
			continue
		}
		record = b.AppendState(binary.BigEndian.AppendUint16(record[:0], locate))
		if err := w.Write(record); err != nil {
			return err
		}
	}
	return nil
}

// begin handles a record of the state of a topic.
func (r *receiver) begin(topic string, record []byte) error {
	t := r.topics[topic]
	switch {
	case t == nil:
		return fmt.Errorf("state of topic %q, which is not subscribed", topic)
	case len(record) == stateNumber:
		t.next = binary.BigEndian.Uint64(record)
		return nil
	case len(record) < stateLocate:
		return fmt.Errorf("topic %s: a state record has %d bytes", topic, len(record))
	}
	b, err := book.ParseState(record[stateLocate:])
	if err != nil {
		return fmt.Errorf("topic %s: %w", topic, err)
	}
	t.locate = binary.BigEndian.Uint16(record)
	t.got += b.Stats().Messages
	r.state.Before += b.Stats().Messages
	r.books.Put(t.locate, b)
	return nil
}

// waitJoined waits for a number of subscribers of each topic, and until all of them have received
// the state that they begin with.
func waitJoined(ctx context.Context, publishers []*pubsub.Publisher, subscribers int) error {
	for _, p := range publishers {
		if err := p.WaitSubscribers(ctx, subscribers); err != nil {
			return err
		}
		for slices.ContainsFunc(p.Receivers(), func(r stats.Subscriber) bool { return r.Joining }) {
			if err := sleep(ctx, 5*time.Millisecond); err != nil {
				return err
			}
		}
	}
	return nil
}
