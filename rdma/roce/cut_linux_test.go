package roce

import (
	"testing"

	"github.com/fanfaremq/fanfare/rdma/internal/rocev2"
)

// Segments of a train may have another size than those of the last train, and the rest after a segment of the old size
// may be too short for headers.
func TestCutWithNewSegmentSize(t *testing.T) {
	for rest := range rocev2.MinBytes + 4 {
		in := &input{d: new(device), segment: 200}
		b := make([]byte, 200+rest)
		if n := in.cut(b, 0); n < 1 || n > len(b) {
			t.Errorf("%d bytes after the old segment size: split at %d of %d", rest, n, len(b))
		}
	}
}
