package engine

import "github.com/fanfaremq/fanfare/internal/sys"

// receiveMemory allocates receive windows on the heap. Subscriptions lend messages in them, and a user may still read
// one when another goroutine closes the bus: outside the heap that would be a memory fault, here the slice keeps the
// memory alive. The garbage collector does not scan it, because it holds no pointers.
//
// A large allocation triggers a collection, which stops all goroutines twice for a moment. So a piece is allocated at a
// subscribe call, not when the first packets arrive, and windows are cut from it as needed. Loop only.
type receiveMemory struct{ spare []byte }

// prepare allocates a piece of n bytes, unless some of the last one is left.
func (m *receiveMemory) prepare(n int) {
	if len(m.spare) == 0 {
		m.spare = make([]byte, n)
	}
}

// Alloc implements reliable.Memory. With soon, pages are populated at once.
func (m *receiveMemory) Alloc(n int, soon bool) ([]byte, error) {
	var p []byte
	if n > len(m.spare) {
		p = make([]byte, n)
	} else {
		p, m.spare = m.spare[:n:n], m.spare[n:]
	}
	if soon {
		sys.Populate(p)
	}
	return p, nil
}

// Free implements reliable.Memory. It does not reuse the memory, because a reader may still use it.
func (m *receiveMemory) Free([]byte) {}
