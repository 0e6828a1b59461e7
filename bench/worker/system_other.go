//go:build !linux

package worker

import "time"

// Now is the host's clock in nanoseconds, the same for all processes. Here it is the wall clock: do
// not set it while measuring.
func Now() int64 { return time.Now().UnixNano() }

func nap(d time.Duration) { time.Sleep(d) }

// peakMemory is unknown here.
func peakMemory() uint64 { return 0 }
