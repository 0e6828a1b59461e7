package worker

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Now is the host's monotonic clock in nanoseconds, the same for all processes. The system clock is
// read at the start; Go's clock, which is the same one, continues without system calls.
func Now() int64 { return clockBase + int64(time.Since(clockStart)) }

var clockBase, clockStart = alignClocks(func() int64 {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // cannot fail
	return ts.Nano()
}, time.Now)

// alignTries is how often both clocks are read, to find a pair of readings without an interruption.
const alignTries = 100

// alignClocks returns readings of the two clocks at the same moment. Time between the readings, as when a new process
// loses the processor, would be in all latencies that it measures, so the try that took the shortest time counts.
func alignClocks(system func() int64, own func() time.Time) (base int64, start time.Time) {
	shortest := time.Duration(-1)
	for range alignTries {
		before := own()
		at := system()
		if elapsed := own().Sub(before); shortest < 0 || elapsed < shortest {
			shortest, base, start = elapsed, at, before.Add(elapsed/2)
		}
	}
	return base, start
}

// nap sleeps for about d. The kernel's sleep is precise to some 50 µs; Go's timers, in an idle
// process, to a millisecond.
func nap(d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	unix.Nanosleep(&ts, nil)
}

// peakMemory reads VmHWM (proc_pid_status(5)), in bytes.
func peakMemory() uint64 {
	text, _ := os.ReadFile("/proc/self/status")
	for line := range bytes.Lines(text) {
		if f := bytes.Fields(line); len(f) > 1 && string(f[0]) == "VmHWM:" {
			kb, _ := strconv.ParseUint(string(f[1]), 10, 64)
			return kb << 10
		}
	}
	return 0
}
