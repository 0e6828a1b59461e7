package histogram

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// Each value is in the bucket with the bounds that include it; values out of range are in the first or the last bucket.
func TestBuckets(t *testing.T) {
	for _, c := range []struct {
		scale *Scale
		v     int64
		upper float64 // 0: the value counts as zero
	}{
		{Seconds, -5, 0}, {Seconds, 0, 0}, {Seconds, 953, 0}, {Seconds, 954, math.Exp2(-20 + 1.0/32)},
		{Seconds, int64(time.Second), 1}, {Seconds, int64(time.Second) + 1, math.Exp2(1.0 / 32)}, {Seconds, 250_000_000, 0.25},
		{Seconds, int64(64 * time.Second), 64}, {Seconds, math.MaxInt64 / 2, 64},
		{Sizes, 0, 0}, {Sizes, 1, 1}, {Sizes, 2, 2}, {Sizes, 3, math.Exp2(51.0 / 32)}, {Sizes, 64, 64}, {Sizes, 1 << 20, 1 << 16},
	} {
		h := New(c.scale)
		h.Record(c.v, 3)
		x := h.Snapshot()
		upper := 0.0
		if len(x.Buckets) == 1 {
			upper = x.Buckets[0].Upper()
		}
		if x.Count != 3 || (x.Zero == 3) != (c.upper == 0) || math.Abs(upper-c.upper) > 1e-12*c.upper {
			t.Errorf("%d is in the bucket up to %v, want %v: %+v", c.v, upper, c.upper, x)
		}
	}
}

// The bounds are those of Prometheus, and exact at each doubling.
func TestBounds(t *testing.T) {
	for i := -700; i < 700; i++ {
		if want := math.Exp2(float64(i) / perDoubling); math.Abs(bound(i)-want) > 1e-14*want || i%perDoubling == 0 && bound(i) != want {
			t.Fatalf("bound %d is %v, want %v", i, bound(i), want)
		}
	}
	for _, s := range []*Scale{Seconds, Sizes} {
		if !slices.IsSorted(s.bounds) {
			t.Error("bounds are not increasing")
		}
		if bound(s.first-1) > 1 || s.bounds[len(s.bounds)-1] != int64(s.unit*bound(s.first+len(s.bounds)-1)) {
			t.Error("the range is not as documented")
		}
	}
}

// Percentiles differ from those of the sorted values by less than a bucket.
func TestQuantile(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	h := New(Seconds)
	if x := h.Snapshot(); x.Quantile(0.5) != 0 {
		t.Error("an empty histogram has a median")
	}
	var all []float64
	for range 10_000 {
		v := int64(math.Exp(r.Float64()*14 + 7))
		h.Record(v, 1)
		all = append(all, float64(v)/1e9)
	}
	slices.Sort(all)
	x := h.Snapshot()
	for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 0.999, 1} {
		exact := all[max(0, int(math.Ceil(q*float64(len(all))))-1)]
		if got := x.Quantile(q); got < exact*(1-1e-9) && exact > x.ZeroUpper || got > max(exact*1.023, x.ZeroUpper) {
			t.Errorf("quantile %v is %v, want %v", q, got, exact)
		}
	}
	if x.Max != all[len(all)-1] {
		t.Errorf("the largest is %v, want %v", x.Max, all[len(all)-1])
	}
}

// Several goroutines may record, without allocations.
func TestRecord(t *testing.T) {
	h := New(Sizes)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range int64(1000) {
				h.Record(i, 2)
				if i%100 == 0 {
					h.Snapshot()
				}
			}
		})
	}
	all.Wait()
	if x := h.Snapshot(); x.Count != 8000 || x.Sum != 8*999*1000/2 || x.Max != 999 || x.Zero != 8 {
		t.Errorf("snapshot %+v, want 8000 values, 8 of them zero, the sum of 8 times 0 to 999, and a maximum of 999", x)
	}
	if n := testing.AllocsPerRun(100, func() { h.Record(77, 1) }); n != 0 {
		t.Errorf("Record makes %v allocations, want none", n)
	}
}

func BenchmarkRecord(b *testing.B) {
	h := New(Seconds)
	for i := range b.N {
		h.Record(int64(i)%1_000_000, 1)
	}
}

// Counts between two snapshots, and of several histograms, are computed from their buckets.
func TestSinceAndSum(t *testing.T) {
	a := []stats.Bucket{{Index: -3, Count: 1}, {Index: 2, Count: 5}, {Index: 4, Count: 7}}
	b := []stats.Bucket{{Index: -3, Count: 1}, {Index: 1, Count: 2}, {Index: 2, Count: 9}, {Index: 4, Count: 7}, {Index: 8, Count: 1}}
	if got, want := Since(b, a), []stats.Bucket{{Index: 1, Count: 2}, {Index: 2, Count: 4}, {Index: 8, Count: 1}}; !slices.Equal(got, want) {
		t.Errorf("since: %v, want %v", got, want)
	}
	if got := Since(a, b); len(got) != 0 {
		t.Errorf("buckets since a later snapshot: %v, want none", got) // of a restarted process
	}
	if got, want := Sum(a, b), []stats.Bucket{{Index: -3, Count: 2}, {Index: 1, Count: 2}, {Index: 2, Count: 14}, {Index: 4, Count: 14}, {Index: 8, Count: 1}}; !slices.Equal(got, want) {
		t.Errorf("sum: %v, want %v", got, want)
	}
	h := New(Seconds)
	h.Record(0, 2)
	h.Record(int64(time.Second), 1)
	x := h.Snapshot()
	all := x.All()
	if len(all) != 2 || all[0].Count != 2 || all[0].Upper() != x.ZeroUpper || all[1].Upper() != 1 {
		t.Errorf("all buckets: %v, want 2: 2 values of zero, and one up to 1", all)
	}
	if got := stats.Quantile(all, 0.5); got != x.ZeroUpper {
		t.Errorf("median %v, want %v", got, x.ZeroUpper)
	}
}
