//go:build !unix

package worker

// cpuTimes is unknown here.
func cpuTimes() (user, system float64, sleeps uint64) { return 0, 0, 0 }
