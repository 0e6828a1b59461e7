//go:build unix

package worker

import "golang.org/x/sys/unix"

// cpuTimes reads what the process has used so far (getrusage(2)).
func cpuTimes() cpu {
	var ru unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &ru) != nil {
		return cpu{}
	}
	return cpu{
		user: float64(ru.Utime.Nano()) / 1e9, system: float64(ru.Stime.Nano()) / 1e9,
		sleeps: uint64(ru.Nvcsw),
	}
}
