//go:build !linux

package worker

import "time"

// Now is the host's clock in nanoseconds, the same for all its processes. It is
// the wall clock here: do not set it while measuring.
func Now() int64 { return time.Now().UnixNano() }

func nap(d time.Duration) { time.Sleep(d) }

// peakMemory is not known here.
func peakMemory() uint64 { return 0 }
