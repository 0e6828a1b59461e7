package testenv

import (
	"syscall"
	"time"
)

// ProcessorTime returns the processor time that this process has used, including its garbage collector. Tests measure
// costs by it, because elapsed time is far longer on a busy host.
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

// ticks returns the value of f in units of 100 ns.
func ticks(f syscall.Filetime) int64 { return int64(f.HighDateTime)<<32 | int64(f.LowDateTime) }
