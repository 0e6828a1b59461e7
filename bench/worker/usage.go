package worker

import (
	"math"
	"runtime/metrics"
)

// Usage is what a process used between two instants.
type Usage struct {
	User     float64 `json:"user_s"`   // CPU seconds in its own code
	System   float64 `json:"system_s"` // CPU seconds in the kernel
	Sleeps   uint64  `json:"sleeps"`   // times that a thread gave the CPU up to wait
	Allocs   uint64  `json:"allocs"`   // objects on Go's heap
	GCCycles uint64  `json:"gc_cycles"`
	// GCPauseMax is the upper bound of the longest stop of the world for the
	// collector, in seconds (runtime/metrics: /sched/pauses/total/gc:seconds).
	GCPauseMax float64 `json:"gc_pause_max_s"`
	// PeakRSS is the most resident memory that the process had since it started, in bytes. Zero where it is not known.
	PeakRSS uint64 `json:"peak_rss_bytes"`
	// Heap is what Go's heap held at the end, in bytes, with what the collector has
	// not freed yet (/memory/classes/heap/objects:bytes).
	Heap uint64 `json:"heap_bytes"`
}

// sample is a reading of all counters. Those of Usage count from the start of the process.
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

// since is what was used since an earlier sample.
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
