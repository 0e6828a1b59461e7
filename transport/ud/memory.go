package ud

import (
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/rdma"
)

// memory is the arena: all memory registered with the device. Its first region has the receive slots, the staging slots
// and Config.Arena bytes for Alloc. When Alloc needs more the arena grows by a region of at least a quarter of its
// size, so that there are few regions; a registered region cannot grow (docs/decisions, 17).
type memory struct {
	pd   rdma.PD
	own  []byte // part of the first region: receive slots and staging
	lkey uint32 // of own

	mu      sync.Mutex
	closed  bool          // Alloc has ended
	over    bool          // own is no longer used
	lengths map[*byte]int // sizes of memory of Alloc
	// list is replaced, never changed, so that senders read it without a lock.
	list atomic.Pointer[[]*region]
}

// growth: at least one part in growth of the arena is added to it.
const growth = 4

// region is a part of the arena, mapped and registered as one.
type region struct {
	all  []byte
	give []byte // part of all, for Alloc
	lkey uint32
	gone atomic.Bool // unmapped: a cached pointer to it is stale

	// Under memory.mu.
	mr   rdma.MR // nil when the transport has ended
	free spans   // free parts of give
}

func (r *region) covers(data []byte) bool {
	off := uintptr(unsafe.Pointer(unsafe.SliceData(data))) - uintptr(unsafe.Pointer(unsafe.SliceData(r.give)))
	return off < uintptr(len(r.give)) && uintptr(len(data)) <= uintptr(len(r.give))-off
}

// idle reports whether nothing in the region is allocated. The caller holds memory.mu.
func (r *region) idle() bool {
	return len(r.give) == 0 || len(r.free) == 1 && r.free[0].n == len(r.give)
}

func (m *memory) regions() []*region {
	if p := m.list.Load(); p != nil {
		return *p
	}
	return nil
}

// find returns the region that contains data of Alloc, or nil. last is the previous result for the caller.
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

// open makes the first region: own bytes for the transport, and spare bytes for Alloc.
func (m *memory) open(pd rdma.PD, own, spare int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pd, m.lengths = pd, make(map[*byte]int)
	own = pages(own)
	r, err := m.add(own, own+pages(spare), rdma.AccessLocalWrite)
	if err != nil {
		return err
	}
	m.own, m.lkey = r.all[:own], r.lkey
	return nil
}

// add maps and registers a region; Alloc does not use its first own bytes. The caller holds mu.
func (m *memory) add(own, bytes int, access rdma.Access) (*region, error) {
	mem, err := sys.Alloc(bytes)
	if err != nil {
		return nil, err
	}
	mr, err := m.pd.RegisterMemory(mem, access)
	if err != nil {
		sys.Free(mem)
		return nil, registering(bytes, err)
	}
	r := &region{all: mem, give: mem[own:], mr: mr, lkey: mr.LKey()}
	if len(r.give) > 0 {
		r.free.give(0, len(r.give))
	}
	list := append(slices.Clone(m.regions()), r)
	m.list.Store(&list)
	return r, nil
}

func (m *memory) alloc(bytes int) ([]byte, error) {
	if bytes <= 0 {
		return sys.Alloc(bytes) // returns the error
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, net.ErrClosed
	}
	n, size := pages(bytes), 0
	for _, r := range m.regions() {
		if mem := m.allocIn(r, n, bytes); mem != nil {
			// The device uses these physical pages: clearing them by madvise would give the process other pages.
			clear(mem)
			return mem, nil
		}
		size += len(r.all)
	}
	size = max(n, pages(size/growth))
	r, err := m.add(0, size, 0)
	if errors.Is(err, syscall.ENOMEM) && size > n {
		r, err = m.add(0, n, 0) // perhaps this much can be locked
	}
	if err != nil {
		return nil, err
	}
	return m.allocIn(r, n, bytes), nil
}

// allocIn allocates n bytes of a region. It returns the first bytes of them, or nil without room. The caller holds mu.
func (m *memory) allocIn(r *region, n, bytes int) []byte {
	off, ok := r.free.alloc(n)
	if !ok {
		return nil
	}
	mem := r.give[off : off+bytes : off+bytes]
	m.lengths[&mem[0]] = n
	return mem
}

func (m *memory) release(mem []byte) {
	if len(mem) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.lengths[&mem[0]]
	if n == 0 {
		return
	}
	delete(m.lengths, &mem[0])
	for _, r := range m.regions() {
		if r.covers(mem) {
			r.free.give(int(uintptr(unsafe.Pointer(&mem[0]))-uintptr(unsafe.Pointer(&r.give[0]))), n)
			m.trim(r)
			return
		}
	}
}

// trim unmaps an unused region. The caller holds mu.
func (m *memory) trim(r *region) {
	if !r.idle() || len(m.own) > 0 && &r.all[0] == &m.own[0] && !m.over {
		return
	}
	list := slices.DeleteFunc(slices.Clone(m.regions()), func(o *region) bool { return o == r })
	m.list.Store(&list)
	r.gone.Store(true)
	if r.mr != nil {
		_ = r.mr.Close() // it fails only if it is closed already
	}
	sys.Free(r.all)
}

// deregister ends all registrations. Memory of Alloc stays valid for its owners.
func (m *memory) deregister() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	var first error
	for _, r := range m.regions() {
		if r.mr == nil {
			continue
		}
		if err := r.mr.Close(); first == nil {
			first = err
		}
		r.mr = nil
	}
	return first
}

// freeze ends alloc.
func (m *memory) freeze() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
}

// end frees the transport's own memory, which must be deregistered.
func (m *memory) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.over, m.own = true, nil
	for _, r := range m.regions() {
		m.trim(r)
	}
}

// pages rounds up to whole pages.
func pages(n int) int { return (n + pageBytes - 1) &^ (pageBytes - 1) }
