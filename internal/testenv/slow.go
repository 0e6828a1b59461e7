package testenv

import "testing"

// Slow skips a test that takes seconds with -short, except under the race detector, which needs such tests.
func Slow(t *testing.T) {
	t.Helper()
	if testing.Short() && !raceDetector {
		t.Skip("it takes seconds: skipped with -short")
	}
}

// OneGoroutine skips a test without goroutines under the race detector, which finds nothing in it.
func OneGoroutine(t *testing.T) {
	t.Helper()
	if raceDetector {
		t.Skip("it starts no goroutine: skipped under the race detector")
	}
}
