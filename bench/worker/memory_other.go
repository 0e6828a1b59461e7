//go:build !linux

package worker

// residentMemory is not known here.
func residentMemory() (now, peak uint64) { return 0, 0 }
