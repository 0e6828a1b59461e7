//go:build unix

package testenv

import (
	"syscall"
	"time"
)

// ProcessorTime is how long this process has had processors, its garbage collector included. What something costs
// is measured by it: on a busy host it takes far longer by the clock.
func ProcessorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
