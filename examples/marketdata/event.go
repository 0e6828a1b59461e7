package main

import (
	"fmt"
	"time"

	"github.com/fanfaremq/fanfare/examples/marketdata/book"
	"github.com/fanfaremq/fanfare/examples/marketdata/report"
)

// job is the task of a role: the first line of a child's standard input, in JSON. Nothing follows
// it; the end of the input stops the child.
type job struct {
	Config     config
	Plan       *plan
	Subscriber int // number of the subscriber, from 1; 0 for the publisher
}

// joins reports whether a role joins in mid-feed.
func (j job) joins() bool { return j.Subscriber > j.Config.Subscribers }

// name is the name of a role in messages to the user.
func (j job) name() string {
	if j.Subscriber == 0 {
		return "publisher"
	}
	return fmt.Sprintf("subscriber %d", j.Subscriber)
}

// event is a report of a role to the parent: a line of a child's standard output, in JSON.
type event struct {
	Kind       string
	Error      string           `json:",omitempty"` // of kind failed
	Publisher  *publisherState  `json:",omitempty"`
	Subscriber *subscriberState `json:",omitempty"`
}

// The kinds of events.
const (
	kindReady    = "ready"    // a subscriber has joined, or the publisher begins
	kindProgress = "progress" // several times a second
	kindDone     = "done"     // everything is delivered; contains the digest; the last event
	kindFailed   = "failed"   // with an error; the last event
)

// publisherState is the progress of the publisher.
type publisherState struct {
	Published uint64      // messages
	Rate      float64     // messages per second, recently
	Digest    book.Digest // of its own books; valid when done
	Orders    int
	Unknown   uint64 // messages about orders that are not in the feed
}

// subscriberState is the progress of a subscriber.
type subscriberState struct {
	report.Subscriber
	// Took is the time from sending the first message to receiving the last; valid when done.
	Took time.Duration
	// Disorder counts messages received twice or out of order, or missing without a gap event. It is 0
	// unless the library is broken.
	Disorder uint64
	Before   uint64       // messages included in the books that it began with
	Digest   book.Digest  // valid when done
	Top      []report.Row // the busiest symbols
}

// clockEvery: without a rate limit, so many messages share a time, because reading the clock takes as long as
// publishing.
const clockEvery = 16

// progressEvery is the interval of progress reports.
const progressEvery = 200 * time.Millisecond

// meter measures a rate between reports.
type meter struct {
	at   time.Time // of the latest report
	from uint64    // the count at that time
}

// due reports whether a report is due.
func (m *meter) due(now time.Time) bool { return now.Sub(m.at) >= progressEvery }

// rate is the increase of the count per second since the previous report.
func (m *meter) rate(now time.Time, count uint64) (rate float64) {
	if !m.at.IsZero() {
		rate = mean(count-m.from, now.Sub(m.at))
	}
	m.at, m.from = now, count
	return rate
}

// mean is the number of messages a second; 0 if the time is unknown.
func mean(messages uint64, elapsed time.Duration) float64 {
	if elapsed <= 0 {
		return 0
	}
	return float64(messages) / elapsed.Seconds()
}
