package worker

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Histograms count nanoseconds, up to a minute, with three digits: exact below two microseconds.
const (
	histogramLow    = 1
	histogramHigh   = int64(time.Minute)
	histogramDigits = 3
)

// NewHistogram returns an empty histogram of nanoseconds.
func NewHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(histogramLow, histogramHigh, histogramDigits)
}

func record(h *hdrhistogram.Histogram, ns int64) {
	h.RecordValue(min(max(ns, histogramLow), histogramHigh))
}

// Latencies makes a Report's histogram from single values in nanoseconds. It is for bench/peers, a separate module.
func Latencies(ns []int64) *hdrhistogram.Snapshot {
	h := NewHistogram()
	for _, v := range ns {
		record(h, v)
	}
	return h.Export()
}
