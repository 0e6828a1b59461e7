// Package report shows the state of a market data run: on a terminal as a table that is redrawn in
// place, otherwise as one plain line at a time.
package report

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/fanfaremq/fanfare/examples/marketdata/book"
)

// Row is the top of book of one symbol, as a subscriber sees it.
type Row struct {
	Symbol   string
	Bid, Ask book.Level // without orders if the side is empty
	Messages uint64     // of the symbol, since the start
}

// Subscriber is the progress of one subscriber.
type Subscriber struct {
	Messages uint64  // received since the start
	Rate     float64 // messages per second, recently
	Latency  Percentiles
	Gaps     uint64 // gap events: permanent losses
	Lost     uint64 // messages in them
	Repairs  uint64 // packets that were lost and repaired
}

// Frame is the state of a run at one time.
type Frame struct {
	Elapsed     time.Duration
	Published   uint64 // messages
	Total       uint64 // messages in total
	Rate        float64
	Top         []Row        // the busiest symbols, sorted
	Subscribers []Subscriber // numbered from 1
}

// maxLatency is the longest latency that is recorded exactly; longer ones are recorded as this.
const maxLatency = time.Minute

// Latencies collects latencies with three significant digits between 1 ns and a minute, in constant
// memory. It is not safe for concurrent use.
type Latencies struct {
	h   *hdrhistogram.Histogram
	max time.Duration // exact, because the histogram rounds
}

// NewLatencies returns an empty collection.
func NewLatencies() *Latencies {
	return &Latencies{h: hdrhistogram.New(1, int64(maxLatency), 3)}
}

// Record adds a latency. A negative one, which is possible only if a clock was set back, counts as
// 0. It does not allocate.
func (l *Latencies) Record(d time.Duration) {
	d = min(max(d, 0), maxLatency)
	l.max = max(l.max, d)
	if err := l.h.RecordValue(int64(d)); err != nil {
		panic(err) // the histogram covers the clamped range
	}
}

// Percentiles summarizes latencies.
type Percentiles struct {
	P50, P99, P999, Max time.Duration
}

// Percentiles returns the summary of all latencies since the start.
func (l *Latencies) Percentiles() Percentiles {
	at := func(p float64) time.Duration { return min(time.Duration(l.h.ValueAtPercentile(p)), l.max) }
	return Percentiles{at(50), at(99), at(99.9), l.max}
}
