package testenv

import "testing"

// Slow leaves a test of some seconds out with -short; under the race detector, which is there for such tests, it runs.
func Slow(t *testing.T) {
	t.Helper()
	if testing.Short() && !raceDetector {
		t.Skip("it takes seconds: left out with -short")
	}
}
