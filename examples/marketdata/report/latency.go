package report

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// maxLatency is the longest latency that is told apart; longer ones count as
// this much.
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

// Percentiles is what a report says of many latencies, in nanoseconds where it
// is JSON.
type Percentiles struct {
	Count int64         `json:"count"`
	P50   time.Duration `json:"p50"`
	P90   time.Duration `json:"p90"`
	P99   time.Duration `json:"p99"`
	P999  time.Duration `json:"p999"`
	Max   time.Duration `json:"max"`
}

// Percentiles returns those of all latencies since the start.
func (l *Latencies) Percentiles() Percentiles {
	at := func(p float64) time.Duration { return min(time.Duration(l.h.ValueAtPercentile(p)), l.max) }
	return Percentiles{
		Count: l.h.TotalCount(),
		P50:   at(50),
		P90:   at(90),
		P99:   at(99),
		P999:  at(99.9),
		Max:   l.max,
	}
}
