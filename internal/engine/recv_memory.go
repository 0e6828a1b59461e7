package engine

import "github.com/fanfaremq/fanfare/internal/sys"

// receiveMemory is where receive windows live. Subscriptions lend messages out of
// them, and a user may still look at one when the bus is closed by somebody
// else: off the heap that would be a fault, here the slice keeps its memory
// alive. The collector does not scan it, for it holds no pointers.
//
// So large a piece makes the collector run, which stops all goroutines twice for a
// moment: one is made when somebody subscribes, not when the first packets come, and
// the windows of the bus cut theirs from it as they need it. Loop only.
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

// Free implements reliable.Memory. The memory is not used again: somebody may
// still look at it.
func (m *receiveMemory) Free([]byte) {}
