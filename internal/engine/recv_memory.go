package engine

import "github.com/fanfaremq/fanfare/internal/sys"

// receiveMemory holds receive windows. Subscriptions lend messages out of them, and a user may still read one when
// the bus is closed by another goroutine: off the heap that would be a fault, here the slice keeps its memory
// alive. The collector does not scan it, because it holds no pointers.
//
// So large a piece makes the collector run, which stops all goroutines twice for a moment: a piece is made at a
// subscribe call, not when the first packets arrive, and the windows of the bus are cut from it as needed. Loop only.
type receiveMemory struct{ spare []byte }

// prepare has a piece of n bytes ready, or what is left of one.
func (m *receiveMemory) prepare(n int) {
	if len(m.spare) == 0 {
		m.spare = make([]byte, n)
	}
}

// Alloc implements reliable.Memory. What will be filled soon has its pages at once.
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

// Free implements reliable.Memory. The memory is not used again: a reader may still use it.
func (m *receiveMemory) Free([]byte) {}
