package testenv

import "testing"

// Slow skips a test of some seconds with -short, except under the race detector, for which such tests exist.
func Slow(t *testing.T) {
	t.Helper()
	if testing.Short() && !raceDetector {
		t.Skip("it takes seconds: left out with -short")
	}
}

// OneGoroutine skips a test that starts no goroutine under the race detector, which can find nothing there.
func OneGoroutine(t *testing.T) {
	t.Helper()
	if raceDetector {
		t.Skip("it starts no goroutine: left out under the race detector")
	}
}
