// Package histogram counts durations and sizes in buckets with exponentially growing bounds. Recording
// adds to three atomic counters: it takes no lock and allocates nothing. Any goroutine may record while
// others read. Statistics take percentiles from a stats.Distribution; Prometheus takes the buckets, which are
// those of a native histogram (https://prometheus.io/docs/specs/native_histograms/).
package histogram

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/stats"
)

const perDoubling = 1 << stats.Schema

// Scale is a unit, and the range of its buckets. Smaller values count as zero, larger ones as the largest.
type Scale struct {
	unit   float64 // what is recorded, in what is shown: 1e9 nanoseconds a second
	first  int     // index of the first bucket; its lower bound is 2^((first-1)/perDoubling)
	bounds []int64 // upper bounds of all buckets, inclusive, in what is recorded
}

func newScale(unit float64, low, high int) *Scale {
	s := &Scale{unit: unit, first: low*perDoubling + 1}
	for i := s.first; i <= high*perDoubling; i++ {
		s.bounds = append(s.bounds, int64(math.Floor(unit*bound(i))))
	}
	return s
}

func bound(i int) float64 { return stats.Bucket{Index: i}.Upper() }

var (
	// Seconds is of times, recorded in nanoseconds, from 2^-20 s, which is 0.95 µs, to 64 s.
	Seconds = newScale(float64(time.Second), -20, 6)
	// Sizes is of numbers from 1 to 65,536.
	Sizes = newScale(1, -1, 16)
)

// Histogram is one. Make it with New.
type Histogram struct {
	scale  *Scale
	counts []atomic.Uint64 // of zero, and of each bucket
	sum    atomic.Int64
	max    atomic.Int64
}

// New returns an empty histogram.
func New(s *Scale) *Histogram {
	return &Histogram{scale: s, counts: make([]atomic.Uint64, len(s.bounds)+1)}
}

// Record counts v, in the unit of the scale, n times.
func (h *Histogram) Record(v int64, n uint64) {
	if n == 0 {
		return
	}
	v = max(v, 0)
	h.counts[h.scale.bucket(v)].Add(n)
	h.sum.Add(v * int64(n))
	for {
		highest := h.max.Load()
		if v <= highest || h.max.CompareAndSwap(highest, v) {
			return
		}
	}
}

// bucket is where v is counted: 0 is zero.
func (s *Scale) bucket(v int64) int {
	if float64(v) <= s.unit*bound(s.first-1) {
		return 0
	}
	low, high := 0, len(s.bounds)-1 // the bucket is between them, both included
	for low < high {
		middle := int(uint(low+high) / 2)
		if s.bounds[middle] < v {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low + 1
}

// Snapshot reads the histogram. Concurrent records may be included or not, but Count is the sum of the buckets.
func (h *Histogram) Snapshot() stats.Distribution {
	x := stats.Distribution{ZeroUpper: bound(h.scale.first - 1), Sum: float64(h.sum.Load()) / h.scale.unit,
		Max: float64(h.max.Load()) / h.scale.unit}
	x.Zero = h.counts[0].Load()
	x.Count = x.Zero
	for i := range h.scale.bounds {
		if n := h.counts[i+1].Load(); n > 0 {
			x.Buckets = append(x.Buckets, stats.Bucket{Index: h.scale.first + i, Count: n})
			x.Count += n
		}
	}
	return x
}

// Since is what now counts more than before did, of one histogram.
func Since(now, before []stats.Bucket) []stats.Bucket {
	return combine(now, before, func(a, b uint64) uint64 { return a - min(a, b) })
}

// Sum is what both count.
func Sum(x, y []stats.Bucket) []stats.Bucket {
	return combine(x, y, func(a, b uint64) uint64 { return a + b })
}

// combine goes through the buckets of both in their order. Empty ones are left out.
func combine(x, y []stats.Bucket, f func(a, b uint64) uint64) (all []stats.Bucket) {
	for len(x)+len(y) > 0 {
		var a, b uint64
		index := math.MaxInt
		if len(x) > 0 {
			index = x[0].Index
		}
		if len(y) > 0 {
			index = min(index, y[0].Index)
		}
		if len(x) > 0 && x[0].Index == index {
			a, x = x[0].Count, x[1:]
		}
		if len(y) > 0 && y[0].Index == index {
			b, y = y[0].Count, y[1:]
		}
		if n := f(a, b); n > 0 {
			all = append(all, stats.Bucket{Index: index, Count: n})
		}
	}
	return all
}
