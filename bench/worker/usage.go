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
	// RSS is the process's resident memory at the end, in bytes, and PeakRSS
	// the most there was since it started. Zero where the system does not tell.
	RSS     uint64 `json:"rss_bytes"`
	PeakRSS uint64 `json:"peak_rss_bytes"`
	// Heap is what Go's heap held at the end, in bytes, with what the collector has
	// not freed yet (/memory/classes/heap/objects:bytes).
	Heap uint64 `json:"heap_bytes"`
}

// sample is a reading of all counters.
type sample struct {
	cpu    cpu
	allocs uint64
	cycles uint64
	heap   uint64
	pauses *metrics.Float64Histogram
}

type cpu struct {
	user, system float64 // seconds
	sleeps       uint64
}

var runtimeMetrics = []string{"/gc/heap/allocs:objects", "/gc/cycles/total:gc-cycles", "/sched/pauses/total/gc:seconds", "/memory/classes/heap/objects:bytes"}

func takeSample() sample {
	in := make([]metrics.Sample, len(runtimeMetrics))
	for i, name := range runtimeMetrics {
		in[i].Name = name
	}
	metrics.Read(in)
	return sample{
		cpu: cpuTimes(), allocs: in[0].Value.Uint64(), cycles: in[1].Value.Uint64(), heap: in[3].Value.Uint64(),
		pauses: in[2].Value.Float64Histogram(),
	}
}

// since is what was used since an earlier sample.
func (s sample) since(before sample) Usage {
	u := Usage{
		User: s.cpu.user - before.cpu.user, System: s.cpu.system - before.cpu.system,
		Sleeps: s.cpu.sleeps - before.cpu.sleeps,
		Allocs: s.allocs - before.allocs, GCCycles: s.cycles - before.cycles, Heap: s.heap,
	}
	u.RSS, u.PeakRSS = residentMemory()
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
