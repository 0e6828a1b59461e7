package engine

import (
	"testing"
	"unsafe"

	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/reliable"
)

// Data that one bus writes for messages shares no cache line with that of another bus. The allocator places objects of one
// size in a row, so only some sizes start at a line.
func TestBusesShareNoLine(t *testing.T) {
	for name, size := range map[string]uintptr{
		"Loop": unsafe.Sizeof(Loop{}), "Publication": unsafe.Sizeof(Publication{}), "departure": unsafe.Sizeof(departure{}),
		"group": unsafe.Sizeof(group{}), "feed": unsafe.Sizeof(feed{}), "Subscription": unsafe.Sizeof(Subscription{}),
		"Sender": unsafe.Sizeof(reliable.Sender{}), "Writer": unsafe.Sizeof(topics.Writer{}), "Packets": unsafe.Sizeof(reliable.Packets{}),
		"message layer": unsafe.Sizeof(topics.Sender{}), "Receiver": unsafe.Sizeof(reliable.Receiver{}), "Stream": unsafe.Sizeof(reliable.Stream{}),
	} {
		if allocated := cap(append([]byte(nil), make([]byte, size)...)); allocated%64 != 0 {
			t.Errorf("a %s of %d bytes takes %d, want a multiple of 64, so that no two share a cache line", name, size, allocated)
		}
	}
}
