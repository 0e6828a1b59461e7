//go:build rdma && linux && cgo

package verbs

import "sync"

// handles maps numbers to Go objects. The numbers represent the objects in C, as contexts of ids, joins and queues.
// They are never reused, so that get does not find a closed object.
type handles[T any] struct {
	mu   sync.Mutex
	last uint64
	all  map[uint64]T
}

func (h *handles[T]) add(v T) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = map[uint64]T{}
	}
	h.last++
	h.all[h.last] = v
	return h.last
}

// get returns the zero T if there is none.
func (h *handles[T]) get(n uint64) T {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.all[n]
}

func (h *handles[T]) remove(n uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.all, n)
}

var (
	allCQs handles[*cq]
	allQPs handles[*qp]
)
