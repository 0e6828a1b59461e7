package main

import (
	"fmt"
	"time"

	"github.com/fanfaremq/fanfare/examples/marketdata/book"
	"github.com/fanfaremq/fanfare/examples/marketdata/report"
)

// job is what a role has to do: the first line of a child's standard input, in
// JSON. Nothing follows it; the end of the input stops the child.
type job struct {
	Config     config
	Plan       *plan
	Subscriber int // which one, from 1; 0 for the publisher
}

// joins reports whether a role comes when the feed is in flight.
func (j job) joins() bool { return j.Subscriber > j.Config.Subscribers }

// name is what a role is called in messages to the user.
func (j job) name() string {
	if j.Subscriber == 0 {
		return "publisher"
	}
	return fmt.Sprintf("subscriber %d", j.Subscriber)
}

// event is what a role reports to the parent: a line of a child's standard output, in JSON.
type event struct {
	Kind       string
	Error      string           `json:",omitempty"` // of kind failed
	Publisher  *publisherState  `json:",omitempty"`
	Subscriber *subscriberState `json:",omitempty"`
}

// The kinds of events.
const (
	kindReady    = "ready"    // a subscriber has joined, or the publisher begins to publish
	kindProgress = "progress" // several times a second
	kindDone     = "done"     // everything is delivered, the digest is in it; the last event
	kindFailed   = "failed"   // with a reason; the last event
)

// publisherState is how far the publisher has come.
type publisherState struct {
	Published uint64      // messages
	Rate      float64     // messages per second, of late
	Digest    book.Digest // of its own books; valid when done
	Orders    int
	Unknown   uint64 // messages about orders that the feed did not add
}

// subscriberState is how far a subscriber has come.
type subscriberState struct {
	report.Subscriber
	// Took is the time from when the first message was sent to when the last one had come; valid when done.
	Took time.Duration
	// Disorder counts messages that came twice, out of order, or that are
	// missing without a gap event. It is 0, or the library is broken.
	Disorder uint64
	Before   uint64       // messages that were in the books which it began with
	Digest   book.Digest  // valid when done
	Top      []report.Row // the busiest symbols
}

// clockEvery is how many messages of a run without a limit share a time: to ask for it takes as long as to publish one.
const clockEvery = 16

// progressEvery is how often a role reports how far it has come.
const progressEvery = 200 * time.Millisecond

// meter measures a rate from one report to the next.
type meter struct {
	at   time.Time // of the latest report
	from uint64    // the count then
}

// due reports whether it is time for a report.
func (m *meter) due(now time.Time) bool { return now.Sub(m.at) >= progressEvery }

// rate is what the count has grown by since the report before, a second.
func (m *meter) rate(now time.Time, count uint64) (rate float64) {
	if !m.at.IsZero() {
		rate = mean(count-m.from, now.Sub(m.at))
	}
	m.at, m.from = now, count
	return rate
}

// mean is messages a second; 0 if it is not known how long they took.
func mean(messages uint64, took time.Duration) float64 {
	if took <= 0 {
		return 0
	}
	return float64(messages) / took.Seconds()
}
