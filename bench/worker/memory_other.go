//go:build !linux

package worker

// peakMemory is not known here.
func peakMemory() uint64 { return 0 }
