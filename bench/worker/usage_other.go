//go:build !unix

package worker

// cpuTimes is not known here.
func cpuTimes() cpu { return cpu{} }
