// Package histogram counts durations and sizes in buckets with exponentially growing bounds. Recording adds to three
// atomic counters, without locks and allocations. Any goroutine may record while others read. Statistics use
// percentiles of a stats.Distribution; Prometheus uses the buckets, which are those of a native histogram
// (https://prometheus.io/docs/specs/native_histograms/).
package histogram

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/stats"
)

const perDoubling = 1 << stats.Schema

// Scale is a unit and the range of the buckets. Smaller values count as zero, larger ones in the last bucket.
type Scale struct {
	unit   float64 // recorded units in a reported unit: 1e9 nanoseconds in a second
	first  int     // index of the first bucket; its lower bound is 2^((first-1)/perDoubling)
	bounds []int64 // inclusive upper bounds of all buckets, in recorded units
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
	// Seconds is for times from 2^-20 s, which is 0.95 µs, to 64 s, recorded in nanoseconds.
	Seconds = newScale(float64(time.Second), -20, 6)
	// Sizes is for numbers from 1 to 65,536.
	Sizes = newScale(1, -1, 16)
)

// Histogram is a histogram. New makes it.
type Histogram struct {
	scale  *Scale
	counts []atomic.Uint64 // count of zero, and of each bucket
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

// bucket returns the index in counts for v: 0 is zero.
func (s *Scale) bucket(v int64) int {
	if float64(v) <= s.unit*bound(s.first-1) {
		return 0
	}
	low, high := 0, len(s.bounds)-1 // the bucket is between them, inclusive
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

// Snapshot returns the current values. Concurrent records may be included or not, but Count is always the sum of the
// buckets.
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

// Since returns the increase from before to now, of one histogram.
func Since(now, before []stats.Bucket) []stats.Bucket {
	return combine(now, before, func(a, b uint64) uint64 { return a - min(a, b) })
}

// Sum returns the sum of both.
func Sum(x, y []stats.Bucket) []stats.Bucket {
	return combine(x, y, func(a, b uint64) uint64 { return a + b })
}

// combine applies f to the buckets of both in order, and omits empty results.
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
