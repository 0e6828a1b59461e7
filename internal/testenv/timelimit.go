package testenv

import (
	"fmt"
	"testing"
	"time"
)

// TimeLimit is the flag of a test binary that a test runs again: that one ends, and says where
// it was, a little before the test's own time is up.
func TimeLimit(t *testing.T) string {
	left := 10 * time.Minute // as go test has it by default
	if end, ok := t.Deadline(); ok {
		left = time.Until(end)
	}
	return fmt.Sprint("-test.timeout=", left*9/10)
}
