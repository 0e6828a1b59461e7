package testenv

import (
	"fmt"
	"testing"
	"time"
)

// TimeLimit returns the flag -test.timeout for a test binary that a test starts again: it then ends, and prints its
// stacks, a little before the time limit of the test itself.
func TimeLimit(t *testing.T) string {
	left := 10 * time.Minute // the default of go test
	if end, ok := t.Deadline(); ok {
		left = time.Until(end)
	}
	return fmt.Sprint("-test.timeout=", left*9/10)
}
