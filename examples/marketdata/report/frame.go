// Package report shows the state of a market data run: on a terminal a table
// that is redrawn in place, otherwise one plain line at a time.
package report

import (
	"time"

	"github.com/fanfaremq/fanfare/examples/marketdata/book"
)

// Row is the top of book of one symbol, as a subscriber sees it.
type Row struct {
	Symbol   string     `json:"symbol"`
	Bid      book.Level `json:"bid"` // of no orders where the side is empty
	Ask      book.Level `json:"ask"`
	Messages uint64     `json:"messages"` // of the symbol, since the start
}

// Subscriber is how far one subscriber has come.
type Subscriber struct {
	Name     string
	Messages uint64  // received since the start
	Rate     float64 // messages per second, of late
	Latency  Percentiles
	Gaps     uint64 // gap events: something was lost for good
	Lost     uint64 // messages in them
	Repairs  uint64 // packets that were lost and came again
}

// Frame is one moment of a run.
type Frame struct {
	Elapsed     time.Duration
	Published   uint64 // messages
	Total       uint64 // messages there will be, 0 if unknown
	Rate        float64
	Top         []Row // the most active symbols, the busiest first
	Subscribers []Subscriber
}
