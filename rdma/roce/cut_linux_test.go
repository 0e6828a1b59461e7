package roce

import (
	"testing"

	"github.com/fanfaremq/fanfare/rdma/internal/rocev2"
)

// A train's segments may differ in size from the last train's, and the rest after a segment of the old size may
// be too short for headers.
func TestCutForgetsAnOldSegment(t *testing.T) {
	for rest := range rocev2.MinBytes + 4 {
		in := &input{d: new(device), segment: 200}
		b := make([]byte, 200+rest)
		if n := in.cut(b, 0); n < 1 || n > len(b) {
			t.Errorf("%d bytes behind the old segment: cut at %d of %d", rest, n, len(b))
		}
	}
}
