package topics

import (
	"testing"
	"unsafe"
)

// A run of messages touches one line of the cache of its topic, where lines have 64 bytes.
func TestTrackFitsLine(t *testing.T) {
	var k Track
	if unsafe.Sizeof(uintptr(0)) == 8 && (unsafe.Offsetof(k.foreign) != 64 || unsafe.Sizeof(k)%64 != 0) {
		t.Errorf("what each run asks for takes %d bytes of %d", unsafe.Offsetof(k.foreign), unsafe.Sizeof(k))
	}
}
