// Package report shows the state of a market data run: on a terminal a table
// that is redrawn in place, otherwise one plain line at a time.
package report

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/fanfaremq/fanfare/examples/marketdata/book"
)

// Row is the top of book of one symbol, as a subscriber sees it.
type Row struct {
	Symbol   string
	Bid, Ask book.Level // of no orders where the side is empty
	Messages uint64     // of the symbol, since the start
}

// Subscriber is how far one subscriber has come.
type Subscriber struct {
	Messages uint64  // received since the start
	Rate     float64 // messages per second, of late
	Latency  Percentiles
	Gaps     uint64 // gap events: something was lost permanently
	Lost     uint64 // messages in them
	Repairs  uint64 // packets that were lost and came again
}

// Frame is one moment of a run.
type Frame struct {
	Elapsed     time.Duration
	Published   uint64 // messages
	Total       uint64 // messages there will be
	Rate        float64
	Top         []Row        // the most active symbols, the busiest first
	Subscribers []Subscriber // they are numbered from 1
}

// maxLatency is the longest latency that is counted as itself; longer ones count as this much.
const maxLatency = time.Minute

// Latencies collects latencies with three significant digits between 1 ns and
// a minute, in constant memory. It is for one goroutine.
type Latencies struct {
	h   *hdrhistogram.Histogram
	max time.Duration // exact, the histogram rounds
}

// NewLatencies returns an empty collection.
func NewLatencies() *Latencies {
	return &Latencies{h: hdrhistogram.New(1, int64(maxLatency), 3)}
}

// Record adds a latency. A negative one, which only a clock that was set back
// can bring about, counts as 0. It allocates nothing.
func (l *Latencies) Record(d time.Duration) {
	d = min(max(d, 0), maxLatency)
	l.max = max(l.max, d)
	if err := l.h.RecordValue(int64(d)); err != nil {
		panic(err) // the histogram covers the range that d was brought into
	}
}

// Percentiles is what a report has of many latencies.
type Percentiles struct {
	P50, P99, P999, Max time.Duration
}

// Percentiles returns those of all latencies since the start.
func (l *Latencies) Percentiles() Percentiles {
	at := func(p float64) time.Duration { return min(time.Duration(l.h.ValueAtPercentile(p)), l.max) }
	return Percentiles{at(50), at(99), at(99.9), l.max}
}
