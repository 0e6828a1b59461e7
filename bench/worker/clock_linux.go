package worker

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now is the host's monotonic clock in nanoseconds, the same for all its
// processes. The system is asked once; Go's own clock, which is the same one,
// goes on from there without a system call.
func Now() int64 { return clockBase + int64(time.Since(clockStart)) }

var clockBase, clockStart = func() (int64, time.Time) {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return ts.Nano(), time.Now()
}()

// nap sleeps for about d. The kernel's own sleep is precise to some 50 µs; Go's
// timers, in an idle process, to a millisecond.
func nap(d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	unix.Nanosleep(&ts, nil)
}
