package topics

import (
	"testing"
	"unsafe"
)

// A run of messages touches one cache line of its topic, on 64-bit hosts with lines of 64 bytes.
func TestTrackFitsLine(t *testing.T) {
	var k Track
	if unsafe.Sizeof(uintptr(0)) == 8 && (unsafe.Offsetof(k.from) != 64 || unsafe.Sizeof(k)%64 != 0) {
		t.Errorf("the fields that each run needs take %d bytes of %d, want 64 of a multiple of 64", unsafe.Offsetof(k.from), unsafe.Sizeof(k))
	}
}
