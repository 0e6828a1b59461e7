package main

import (
	"time"

	"github.com/fanfaremq/fanfare/examples/marketdata/book"
	"github.com/fanfaremq/fanfare/examples/marketdata/report"
)

// job is what the parent tells a role to do: the first line of a child's
// standard input, in JSON. Nothing follows it; the end of the input tells the
// child to stop.
type job struct {
	Role   string `json:"role"`
	Config config `json:"config"`
	Plan   *plan  `json:"plan"`
	Index  int    `json:"index"` // of the subscriber, from 1
	Join   bool   `json:"join"`  // it comes when the feed is in flight
}

// The roles.
const (
	rolePublisher  = "publisher"
	roleSubscriber = "subscriber"
)

// event is what a role tells the parent: a line of a child's standard output,
// in JSON.
type event struct {
	Kind       string           `json:"event"`
	Error      string           `json:"error,omitempty"` // of kind failed
	Publisher  *publisherState  `json:"publisher,omitempty"`
	Subscriber *subscriberState `json:"subscriber,omitempty"`
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
	Published uint64      `json:"published"` // messages, ends of topics not counted
	Rate      float64     `json:"rate"`      // messages per second, of late
	Digest    book.Digest `json:"digest"`    // of its own books; valid when done
	Repairs   uint64      `json:"repairs"`   // packets sent again
	Orders    int         `json:"orders"`
	Unknown   uint64      `json:"unknown"`
}

// subscriberState is how far a subscriber has come.
type subscriberState struct {
	Messages uint64             `json:"messages"` // received, ends of topics not counted
	Rate     float64            `json:"rate"`     // messages per second, of late
	Latency  report.Percentiles `json:"latency"`  // since the start
	Gaps     uint64             `json:"gaps"`     // gap events
	Lost     uint64             `json:"lost"`     // messages in them
	// Took is the time from when the first message was sent to when the last one had
	// come; valid when done.
	Took    time.Duration `json:"took"`
	Repairs uint64        `json:"repairs"` // packets that came after a request
	// Disorder counts messages that came twice, out of order, or that are
	// missing without a gap event. It is 0, or the library is broken.
	Disorder uint64       `json:"disorder"`
	Before   uint64       `json:"before"` // messages that were in the books which it began with
	Checks   uint64       `json:"checks"` // of a book beside the publisher's on the way
	Differ   uint64       `json:"differ"` // of them that found a difference
	Digest   book.Digest  `json:"digest"` // valid when done
	Orders   int          `json:"orders"`
	Unknown  uint64       `json:"unknown"`
	Top      []report.Row `json:"top,omitempty"` // the busiest symbols
}
