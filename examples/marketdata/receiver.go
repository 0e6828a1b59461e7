package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fanfaremq/fanfare/examples/marketdata/book"
	"github.com/fanfaremq/fanfare/examples/marketdata/itch"
	"github.com/fanfaremq/fanfare/examples/marketdata/report"
)

// topRows is how many symbols a report shows.
const topRows = 8

// receiver is what a subscriber makes of the messages it gets: books, and a
// record of whether each message came once and in order. It knows nothing of
// the network and is for one goroutine.
type receiver struct {
	topics  []topicState
	index   map[string]int // by name
	locates []int          // topic by stock locate, as it was last seen: faster than index
	open    int            // topics that have not ended
	books   *book.Set
	latency *report.Latencies
	state   subscriberState

	rateSince time.Time // of state.Rate
	rateFrom  uint64    // messages then
	first     time.Time // when the first message was sent
}

// topicState is one topic of a receiver.
type topicState struct {
	name   string
	locate uint16 // of its latest message
	next   uint64 // number of the next message
	gone   uint64 // messages that gap events have announced since the latest message
	got    uint64 // messages applied
	ended  bool
}

func newReceiver(topics []string) *receiver {
	r := &receiver{
		topics:  make([]topicState, len(topics)),
		index:   make(map[string]int, len(topics)),
		open:    len(topics),
		books:   book.NewSet(),
		latency: report.NewLatencies(),
	}
	for i, name := range topics {
		r.topics[i].name = name
		r.index[name] = i
	}
	return r
}

// message takes one message in. The error means that it was not published by
// this example.
func (r *receiver) message(topic string, payload []byte, now time.Time) error {
	sent, number, msg, err := parsePayload(payload)
	if err != nil {
		return fmt.Errorf("topic %s: %w", topic, err)
	}
	var h itch.Header // of the end of a topic, nothing
	check, digest, isCheck := parseCheck(msg)
	if len(msg) > 0 && !isCheck {
		if h, err = itch.ParseHeader(msg); err != nil {
			return fmt.Errorf("topic %s: %w", topic, err)
		}
	}
	t := r.topic(topic, max(h.Locate, check))
	if t == nil {
		return fmt.Errorf("message on topic %q, which was not subscribed to", topic)
	}
	switch {
	case number < t.next || t.ended:
		r.state.Disorder++
		return nil // once is enough for a book
	case number-t.next != t.gone:
		// More is missing than was announced, or less.
		r.state.Disorder++
	}
	t.next, t.gone = number+1, 0
	if len(msg) == 0 {
		t.ended = true
		r.open--
		return nil
	}
	if isCheck {
		r.check(check, digest)
		return nil
	}
	if r.state.Messages == 0 {
		r.first = sent
	}
	r.latency.Record(now.Sub(sent))
	r.state.Messages++
	t.locate = h.Locate
	t.got++
	if err := r.books.Apply(msg); err != nil {
		return fmt.Errorf("topic %s: %w", topic, err)
	}
	return nil
}

// topic finds the topic of a message by its name; nil if it is none of ours. Messages of
// one stock are on one topic, so that the one before is the first guess.
func (r *receiver) topic(name string, locate uint16) *topicState {
	for len(r.locates) <= int(locate) {
		r.locates = append(r.locates, 0)
	}
	guess := &r.locates[locate]
	if r.topics[*guess].name != name {
		i, ok := r.index[name]
		if !ok {
			return nil
		}
		*guess = i
	}
	return &r.topics[*guess]
}

// gap takes a gap event in: messages of a topic are lost for good.
func (r *receiver) gap(topic string, count uint64) {
	r.state.Gaps++
	r.state.Lost += count
	if i, ok := r.index[topic]; ok {
		r.topics[i].gone += count
	}
}

// complete reports whether all topics have ended.
func (r *receiver) complete() bool { return r.open == 0 }

// progress brings the state up to date for a report.
func (r *receiver) progress(now time.Time) *subscriberState {
	if dt := now.Sub(r.rateSince); !r.rateSince.IsZero() && dt > 0 {
		r.state.Rate = float64(r.state.Messages-r.rateFrom) / dt.Seconds()
	}
	r.rateSince, r.rateFrom = now, r.state.Messages
	r.state.Latency = r.latency.Percentiles()
	stats, orders := r.books.Stats()
	r.state.Orders, r.state.Unknown = orders, stats.Unknown
	r.state.Top = r.top()
	state := r.state
	return &state
}

// finish takes note of when the last message has come.
func (r *receiver) finish(now time.Time) {
	if r.state.Messages > 0 {
		r.state.Took = now.Sub(r.first)
	}
}

// done is the last progress, with the digest.
func (r *receiver) done(now time.Time) *subscriberState {
	state := r.progress(now)
	state.Digest = r.books.Digest()
	return state
}

// top returns the top of book of the busiest symbols.
func (r *receiver) top() []report.Row {
	busiest := make([]*topicState, 0, len(r.topics))
	for i := range r.topics {
		if t := &r.topics[i]; t.locate != 0 {
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
