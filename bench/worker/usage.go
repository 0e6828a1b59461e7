package worker

import (
	"math"
	"runtime/metrics"
)

// Usage is the resource usage of a process between two times.
type Usage struct {
	User     float64 `json:"user_s"`   // CPU seconds in user mode
	System   float64 `json:"system_s"` // CPU seconds in the kernel
	Sleeps   uint64  `json:"sleeps"`   // times that a thread went to sleep
	Allocs   uint64  `json:"allocs"`   // objects on Go's heap
	GCCycles uint64  `json:"gc_cycles"`
	// GCPauseMax is an upper bound of the longest stop-the-world pause of the collector, in seconds
	// (runtime/metrics: /sched/pauses/total/gc:seconds).
	GCPauseMax float64 `json:"gc_pause_max_s"`
	// PeakRSS is the peak resident memory since the start of the process, in bytes. Zero if unknown.
	PeakRSS uint64 `json:"peak_rss_bytes"`
	// Heap is the size of Go's heap at the end, in bytes, including objects that are not freed yet
	// (/memory/classes/heap/objects:bytes).
	Heap uint64 `json:"heap_bytes"`
}

// sample is a reading of all counters. Those in Usage count from the start of the process.
type sample struct {
	Usage
	pauses *metrics.Float64Histogram
}

var runtimeMetrics = []string{"/gc/heap/allocs:objects", "/gc/cycles/total:gc-cycles", "/sched/pauses/total/gc:seconds", "/memory/classes/heap/objects:bytes"}

func takeSample() sample {
	in := make([]metrics.Sample, len(runtimeMetrics))
	for i, name := range runtimeMetrics {
		in[i].Name = name
	}
	metrics.Read(in)
	u := Usage{Allocs: in[0].Value.Uint64(), GCCycles: in[1].Value.Uint64(), Heap: in[3].Value.Uint64()}
	u.User, u.System, u.Sleeps = cpuTimes()
	return sample{u, in[2].Value.Float64Histogram()}
}

// since is the usage since an earlier sample.
func (s sample) since(before sample) Usage {
	u := Usage{
		User: s.User - before.User, System: s.System - before.System, Sleeps: s.Sleeps - before.Sleeps,
		Allocs: s.Allocs - before.Allocs, GCCycles: s.GCCycles - before.GCCycles, Heap: s.Heap, PeakRSS: peakMemory(),
	}
	for i, n := range s.pauses.Counts {
		if n > before.pauses.Counts[i] {
			u.GCPauseMax = s.pauses.Buckets[i+1]
			if math.IsInf(u.GCPauseMax, 1) {
				u.GCPauseMax = s.pauses.Buckets[i]
			}
		}
	}
	return u
}
