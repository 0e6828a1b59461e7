//go:build unix

package testenv

import (
	"syscall"
	"time"
)

// ProcessorTime returns the processor time that this process has used, including its garbage collector. Tests measure
// costs by it, because elapsed time is far longer on a busy host.
func ProcessorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
