package ud

import (
	"net"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/fanfaremq/fanfare/internal/offheap"
	"github.com/fanfaremq/fanfare/rdma"
)

// memory is all that is registered with the device: the transport's own, and a
// region for each Alloc.
type memory struct {
	pd  rdma.PD
	own []byte // receive slots and staging
	mr  rdma.MR

	mu     sync.Mutex
	closed bool // nothing is registered any more
	// list is replaced, never changed, so that senders read it without a lock.
	list atomic.Pointer[[]*region]
}

// region is memory of one Alloc.
type region struct {
	mem  []byte
	mr   rdma.MR // under memory.mu; nil when the transport has ended
	lkey uint32
	gone atomic.Bool // freed: who remembers it must look again
}

func (r *region) covers(data []byte) bool {
	off := uintptr(unsafe.Pointer(unsafe.SliceData(data))) - uintptr(unsafe.Pointer(unsafe.SliceData(r.mem)))
	return off < uintptr(len(r.mem)) && uintptr(len(data)) <= uintptr(len(r.mem))-off
}

func (m *memory) regions() []*region {
	if p := m.list.Load(); p != nil {
		return *p
	}
	return nil
}

// find returns the region that data lies in, or nil. last is the caller's
// latest.
func (m *memory) find(last *region, data []byte) *region {
	if last != nil && !last.gone.Load() && last.covers(data) {
		return last
	}
	for _, r := range m.regions() {
		if r.covers(data) {
			return r
		}
	}
	return nil
}

func (m *memory) alloc(bytes int) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, net.ErrClosed
	}
	mem, err := offheap.Alloc(bytes)
	if err != nil {
		return nil, err
	}
	mr, err := m.pd.RegisterMemory(mem, 0)
	if err != nil {
		offheap.Free(mem)
		return nil, registering(bytes, err)
	}
	old := m.regions()
	list := append(append(make([]*region, 0, len(old)+1), old...), &region{mem: mem, mr: mr, lkey: mr.LKey()})
	m.list.Store(&list)
	return mem, nil
}

func (m *memory) free(mem []byte) {
	if len(mem) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.regions()
	list := make([]*region, 0, len(old))
	var found *region
	for _, r := range old {
		if &r.mem[0] == &mem[0] {
			found = r
		} else {
			list = append(list, r)
		}
	}
	if found == nil {
		return
	}
	m.list.Store(&list)
	found.gone.Store(true)
	if found.mr != nil {
		_ = found.mr.Close() // the only way to fail is to be closed before
	}
	offheap.Free(found.mem)
}

// deregister ends all registrations. The memory of Alloc stays for its owners.
func (m *memory) deregister() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	var first error
	keep := func(err error) {
		if first == nil {
			first = err
		}
	}
	for _, r := range m.regions() {
		if r.mr != nil {
			keep(r.mr.Close())
			r.mr = nil
		}
	}
	if m.mr != nil {
		keep(m.mr.Close())
		m.mr = nil
	}
	return first
}

// seal ends alloc.
func (m *memory) seal() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
}

// Alloc implements transport.Transport. The memory is registered with the
// device as a region of its own, and its pages are locked.
func (t *Transport) Alloc(bytes int) ([]byte, error) {
	mem, err := t.memory.alloc(bytes)
	if err != nil {
		return nil, named("allocate", err)
	}
	return mem, nil
}

// Free implements transport.Transport.
func (t *Transport) Free(mem []byte) { t.memory.free(mem) }
