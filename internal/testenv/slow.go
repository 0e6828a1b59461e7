package testenv

import "testing"

// Slow skips a test of some seconds with -short, except under the race detector, for which such tests
// exist.
func Slow(t *testing.T) {
	t.Helper()
	if testing.Short() && !raceDetector {
		t.Skip("it takes seconds: left out with -short")
	}
}
