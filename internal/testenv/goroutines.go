package testenv

import (
	"runtime"
	"testing"
	"time"
)

// AwaitGoroutines waits until at most before goroutines run, and fails the test after a minute.
func AwaitGoroutines(t *testing.T, before int) {
	t.Helper()
	for range 60_000 { // ended goroutines may be counted for a moment
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(time.Millisecond)
	}
	buf := make([]byte, 1<<16)
	t.Errorf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
}
