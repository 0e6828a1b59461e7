package bench

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime is how much processor time the thread has had (clock_gettime(2),
// CLOCK_THREAD_CPUTIME_ID).
func threadTime() time.Duration {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts)
	return time.Duration(ts.Nano())
}
