package testenv

import (
	"syscall"
	"time"
)

// ProcessorTime is how long this process has had processors, its garbage collector included. What something costs
// is measured by it: on a busy host it takes far longer by the clock.
func ProcessorTime() time.Duration {
	self, err := syscall.GetCurrentProcess()
	if err != nil {
		return 0
	}
	var created, ended, kernel, user syscall.Filetime
	if syscall.GetProcessTimes(self, &created, &ended, &kernel, &user) != nil {
		return 0
	}
	return time.Duration(ticks(kernel)+ticks(user)) * 100
}

// ticks are hundreds of nanoseconds.
func ticks(f syscall.Filetime) int64 { return int64(f.HighDateTime)<<32 | int64(f.LowDateTime) }
