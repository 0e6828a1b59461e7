package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fanfaremq/fanfare/examples/marketdata/book"
	"github.com/fanfaremq/fanfare/pubsub"
)

// With -join subscribers come when the feed is in full flight. They begin with the state of
// each topic, its books as of some message, and go on with the next one. The first record
// of a topic's state is
//
//	number of the topic's next message, 8 bytes
//
// and each of those that follow is the book of one stock
//
//	stock locate, 2 bytes | book, as book.AppendState writes it
//
// That is exact because books change and messages are published under one lock, which
// the state is written under, too.
const (
	stateNumber = 8
	stateLocate = 2
)

// checkEvery is how many messages of a topic come between two checks of a book.
const checkEvery = 500

// joinable is what a publisher needs whose subscribers may join on the way.
type joinable struct {
	mu         sync.Mutex          // over the books, and what is published of them
	locates    [][]uint16          // of each topic
	publishers []*pubsub.Publisher // of each topic
	every      uint64              // messages from one who joins to the next
	all        int                 // subscribers in the end
}

func newJoinable(j job, publishers []*pubsub.Publisher) *joinable {
	all := &joinable{locates: make([][]uint16, len(j.Plan.Topics)), publishers: publishers, all: j.Config.Subscribers + j.Config.Join}
	all.every = max(j.Plan.Total/uint64(1+j.Config.Join), 1)
	for locate, topic := range j.Plan.Locate {
		all.locates[topic] = append(all.locates[topic], locate)
	}
	return all
}

// due reports whether the parent is to know at once how far the feed is: the next one joins.
func (j *joinable) due(published uint64) bool { return j != nil && published%j.every == 0 }

// wait waits until all who join have what they begin with: the feed is about to end.
func (j *joinable) wait(ctx context.Context) error {
	for _, p := range j.publishers {
		if err := p.WaitSubscribers(ctx, j.all); err != nil {
			return err
		}
		for slices.ContainsFunc(p.Receivers(), func(r pubsub.Receiver) bool { return r.Joining }) {
			if err := sleep(ctx, 5*time.Millisecond); err != nil {
				return err
			}
		}
	}
	return nil
}

// check publishes a check now and then, behind a message.
func (p *publisher) check(ctx context.Context, topic int, now time.Time) error {
	if p.number[topic]%checkEvery != 0 {
		return nil
	}
	return p.publish(ctx, topic, now, appendCheck(nil, p.msg.Locate, p.books.Book(p.msg.Locate).Digest()))
}

// writeState writes the state of a topic.
func (p *publisher) writeState(topic int, w *pubsub.StateWriter) error {
	p.joins.mu.Lock()
	defer p.joins.mu.Unlock()
	record := binary.BigEndian.AppendUint64(nil, p.number[topic])
	if err := w.Write(record); err != nil {
		return err
	}
	for _, locate := range p.joins.locates[topic] {
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

// begin takes a record of the state of a topic, or its end.
func (r *receiver) begin(topic string, record []byte, end bool) error {
	i, ok := r.index[topic]
	switch {
	case !ok:
		return fmt.Errorf("state of topic %q, which was not subscribed to", topic)
	case end:
		return nil
	case len(record) == stateNumber:
		r.topics[i].next = binary.BigEndian.Uint64(record)
		return nil
	case len(record) < stateLocate:
		return fmt.Errorf("topic %s: a record of the state has %d bytes", topic, len(record))
	}
	b, err := book.ParseState(record[stateLocate:])
	if err != nil {
		return fmt.Errorf("topic %s: %w", topic, err)
	}
	t := &r.topics[i]
	t.locate = binary.BigEndian.Uint16(record)
	t.got += b.Stats().Messages
	r.state.Before += b.Stats().Messages
	r.books.Put(t.locate, b)
	return nil
}

// check compares the book of a stock with the publisher's.
func (r *receiver) check(locate uint16, want book.Digest) {
	r.state.Checks++
	if b := r.books.Book(locate); b == nil || b.Digest() != want {
		r.state.Differ++
	}
}
