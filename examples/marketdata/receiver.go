package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fanfaremq/fanfare/examples/marketdata/book"
	"github.com/fanfaremq/fanfare/examples/marketdata/itch"
	"github.com/fanfaremq/fanfare/examples/marketdata/report"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// topRows is the number of symbols in a report.
const topRows = 8

// receiver builds books from the messages of a subscriber, and checks that each message is received
// once and in order. It is not safe for concurrent use.
type receiver struct {
	topics  map[string]*topicState
	books   *book.Set
	msg     itch.Message // the latest message
	latency *report.Latencies
	state   subscriberState
	meter   meter     // for state.Rate
	first   time.Time // when the first message was sent
	last    time.Time // when the last message was received

	groups int             // in which the publisher sends; it ends in each group separately
	ended  map[string]bool // of groups
}

// topicState is one topic of a receiver.
type topicState struct {
	name   string
	locate uint16 // of its latest message
	next   uint64 // number of the next message
	lost   uint64 // messages reported lost by gap events since the latest message
	got    uint64 // messages applied
}

func newReceiver(topics []string, groups int) *receiver {
	r := &receiver{
		topics:  make(map[string]*topicState, len(topics)),
		books:   new(book.Set),
		latency: report.NewLatencies(),
		groups:  groups,
		ended:   map[string]bool{},
	}
	for _, name := range topics {
		r.topics[name] = &topicState{name: name}
	}
	return r
}

// handle handles an item of a subscription. It reports whether the subscription is over: the
// publisher has ended in all groups.
func (r *receiver) handle(msg pubsub.Message, err error, now time.Time) (over bool, _ error) {
	switch {
	case err != nil:
		err = r.event(err)
	case msg.IsStateEnd():
	case msg.IsState():
		err = r.begin(msg.Topic, msg.Data)
	default:
		err = r.message(msg.Topic, msg.Data, now)
	}
	return err != nil || len(r.ended) == r.groups, err
}

// event handles an error in place of a message. It returns errors that end the subscription.
func (r *receiver) event(err error) error {
	var gap *pubsub.GapError
	var publisher *pubsub.PublisherEvent
	switch {
	case errors.As(err, &gap):
		// This is not the end: the stream continues, and the digests will differ.
		r.gap(gap.Topic, gap.Count)
		return nil
	case !errors.As(err, &publisher):
	case publisher.Kind == events.PublisherUp:
		return nil
	case publisher.Kind == events.PublisherEnded:
		r.ended[publisher.Group] = true
		return nil
	}
	return err
}

// message handles one message. An error means that it was not published by this example.
func (r *receiver) message(topic string, payload []byte, now time.Time) error {
	t := r.topics[topic]
	if t == nil {
		return fmt.Errorf("message on topic %q, which is not subscribed", topic)
	}
	sent, number, msg, err := parsePayload(payload)
	if err == nil {
		err = r.msg.Parse(msg)
	}
	if err != nil {
		return fmt.Errorf("topic %s: %w", topic, err)
	}
	switch {
	case number < t.next:
		r.state.Disorder++
		return nil // the book already contains it
	case number-t.next != t.lost:
		// more or fewer messages are missing than were reported
		r.state.Disorder++
	}
	t.next, t.lost = number+1, 0
	t.locate = r.msg.Locate
	t.got++
	r.books.Apply(&r.msg)

	if r.state.Messages == 0 {
		r.first = sent
	}
	r.last = now
	r.state.Messages++
	r.latency.Record(now.Sub(sent))
	return nil
}

// gap handles a gap event: messages of a topic are lost permanently.
func (r *receiver) gap(topic string, count uint64) {
	r.state.Gaps++
	r.state.Lost += count
	if t := r.topics[topic]; t != nil {
		t.lost += count
	}
}

// progress updates the state for a report.
func (r *receiver) progress(now time.Time) *subscriberState {
	r.state.Rate = r.meter.rate(now, r.state.Messages)
	r.state.Latency = r.latency.Percentiles()
	r.state.Top = r.top()
	state := r.state
	return &state
}

// done is the final state, with the digest.
func (r *receiver) done(now time.Time) *subscriberState {
	state := r.progress(now)
	state.Took = r.last.Sub(r.first)
	state.Digest = r.books.Digest()
	return state
}

// top returns the top of book of the busiest symbols.
func (r *receiver) top() []report.Row {
	busiest := make([]*topicState, 0, len(r.topics))
	for _, t := range r.topics {
		if t.locate != 0 {
			busiest = append(busiest, t)
		}
	}
	slices.SortFunc(busiest, func(a, b *topicState) int {
		return cmp.Or(cmp.Compare(b.got, a.got), cmp.Compare(a.name, b.name))
	})
	rows := make([]report.Row, 0, topRows)
	for _, t := range busiest[:min(topRows, len(busiest))] {
		bid, ask := r.books.Book(t.locate).Top()
		rows = append(rows, report.Row{
			Symbol:   strings.TrimPrefix(t.name, topicPrefix),
			Bid:      bid,
			Ask:      ask,
			Messages: t.got,
		})
	}
	return rows
}
