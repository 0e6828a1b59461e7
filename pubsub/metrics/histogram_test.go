package metrics

import (
	"math"
	"reflect"
	"testing"

	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// The native histogram and the classic buckets have the same values.
func TestHistogram(t *testing.T) {
	var st stats.Bus
	st.Distributions.TrainPackets = stats.Distribution{
		Count: 10, Zero: 1, ZeroUpper: 0.5, Sum: 101,
		Buckets: []stats.Bucket{{Index: 0, Count: 2}, {Index: 1, Count: 3}, {Index: 4, Count: 1}, {Index: 5, Count: 1}, {Index: 5 * 32, Count: 2}},
	}
	h := gathered(t, st)["fanfare_publish_train_packets"][""].GetHistogram()
	if h.GetSampleCount() != 10 || h.GetSampleSum() != 101 || h.GetSchema() != nativeSchema || h.GetZeroCount() != 1 || h.GetZeroThreshold() != 0.5 || h.CreatedTimestamp != nil {
		t.Errorf("histogram %v, want 10 values with the sum 101, 1 of them zero, schema %d", h, nativeSchema)
	}
	// 1; up to 2^(1/8), what is above it, and 32.
	want, count := map[int]int64{0: 2, 1: 4, 2: 1, 40: 2}, int64(0)
	got, index, delta := make(map[int]int64), 0, 0
	for _, s := range h.GetPositiveSpan() {
		index += int(s.GetOffset())
		for range s.GetLength() {
			count += h.GetPositiveDelta()[delta]
			if delta++; count != 0 {
				got[index] = count
			}
			index++
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("native buckets %v, want %v", got, want)
	}
	for _, b := range h.GetBucket() {
		want := uint64(8)
		switch u := b.GetUpperBound(); {
		case u < 2:
			want = 3
		case u >= 32:
			want = 10
		}
		if b.GetCumulativeCount() != want {
			t.Errorf("up to %v: %d, want %d", b.GetUpperBound(), b.GetCumulativeCount(), want)
		}
	}
}

// Every distribution is a histogram.
func TestEveryDistribution(t *testing.T) {
	var d stats.Distributions
	seen := make(map[*stats.Distribution]bool)
	for _, h := range histograms {
		seen[h.value(&d)] = true
		if math.IsNaN(h.classic[0]) || len(h.classic) > 20 {
			t.Errorf("%v has %d classic buckets", h.desc, len(h.classic))
		}
	}
	for i := range reflect.TypeOf(d).NumField() {
		if f := reflect.ValueOf(&d).Elem().Field(i); !seen[f.Addr().Interface().(*stats.Distribution)] {
			t.Errorf("%s is in no histogram", reflect.TypeOf(d).Field(i).Name)
		}
	}
}
