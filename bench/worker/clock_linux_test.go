package worker

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A process that loses the processor while it reads its clocks still measures correct latencies.
func TestAlignClocks(t *testing.T) {
	now := time.Now()
	began, calls := now, 0
	pass := func(d time.Duration) { now = now.Add(d) }
	base, start := alignClocks(func() int64 {
		if calls++; calls%10 != 7 {
			pass(time.Duration(calls) * time.Millisecond) // before the reading
		}
		at := now.Sub(began)
		if pass(100 * time.Nanosecond); calls%3 == 0 {
			pass(time.Second) // and after it
		}
		return int64(at)
	}, func() time.Time { return now })
	if off := time.Duration(base) - start.Sub(began); off < -100*time.Nanosecond || off > 100*time.Nanosecond {
		t.Errorf("the clocks are %v apart, want at most 100 ns", off)
	}
}

// Now is CLOCK_MONOTONIC of clock_gettime(2).
func TestNowIsTheSystemsClock(t *testing.T) {
	for range 1000 {
		before := Now()
		var ts unix.Timespec
		unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
		after := Now()
		if at := ts.Nano(); at < before-2000 || at > after+2000 {
			t.Fatalf("the system's clock is %d between %d and %d", at, before, after)
		}
	}
}
