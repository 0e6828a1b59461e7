//go:build unix

package worker

import "golang.org/x/sys/unix"

// cpuTimes returns the CPU time of the process so far, in seconds, and how often a thread went to sleep (getrusage(2)).
func cpuTimes() (user, system float64, sleeps uint64) {
	var ru unix.Rusage
	unix.Getrusage(unix.RUSAGE_SELF, &ru) // cannot fail
	return float64(ru.Utime.Nano()) / 1e9, float64(ru.Stime.Nano()) / 1e9, uint64(ru.Nvcsw)
}
