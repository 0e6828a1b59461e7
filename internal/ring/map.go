// With many topics nearly every message has another topic, and its cost is the memory that is not in
// the cache: here that is one slot, and the value it points to.

package ring

import "math/bits"

// Map is a hash table with open addressing. Ids are hashes already, and all ids of one group may agree in their low
// bits, so the high bits choose the slot. A client that chooses topic names can also make the high bits collide: after
// many collisions other bits choose. The zero value is empty. It belongs to one goroutine at a time.
type Map[T any] struct {
	slots  []slot[T] // a power of two, half of them free at least; nil: none
	shift  uint
	factor uint64 // odd: the high bits of its product with an id choose
	count  int
	mixed  int // how often factor was changed
}

const (
	// maxProbes is how many slots are passed at most before factor is changed. Of a million
	// hashes in a table that is half full none passes half as many.
	maxProbes = 64
	// maxMixed bounds how often the factor is changed: a client that finds colliding ids for this many
	// factors can find more.
	maxMixed = 8
)

type slot[T any] struct {
	id uint64
	v  *T // nil: free
}

// Len is the number of ids.
func (m *Map[T]) Len() int { return m.count }

// Get returns what belongs to id, or nil.
func (m *Map[T]) Get(id uint64) *T {
	if len(m.slots) == 0 {
		return nil
	}
	for i := id * m.factor >> m.shift; ; i++ {
		s := &m.slots[i&uint64(len(m.slots)-1)]
		if s.id == id || s.v == nil {
			return s.v
		}
	}
}

// Add adds v, which is not nil, for id, which has nothing yet.
func (m *Map[T]) Add(id uint64, v *T) {
	if m.count++; 2*m.count > len(m.slots) {
		m.factor = max(m.factor, 1)
		m.rebuild(max(8, 2*len(m.slots)))
	}
	if probes := m.put(slot[T]{id, v}); probes > maxProbes && m.mixed < maxMixed {
		m.mixed++
		m.factor *= 0x9e3779b97f4a7c15
		m.rebuild(len(m.slots))
	}
}

// rebuild puts everything into n slots.
func (m *Map[T]) rebuild(n int) {
	old := m.slots
	m.slots = make([]slot[T], n)
	m.shift = uint(64 - bits.Len(uint(n-1)))
	for _, s := range old {
		if s.v != nil {
			m.put(s)
		}
	}
}

// put puts s into a free slot, and returns how many others it passed.
func (m *Map[T]) put(s slot[T]) (probes int) {
	mask := uint64(len(m.slots) - 1)
	i := s.id * m.factor >> m.shift
	for m.slots[i&mask].v != nil {
		i++
		probes++
	}
	m.slots[i&mask] = s
	return probes
}

// Remove forgets id, if it is there.
func (m *Map[T]) Remove(id uint64) {
	if m.Get(id) == nil {
		return
	}
	mask := uint64(len(m.slots) - 1)
	i := id * m.factor >> m.shift & mask
	for m.slots[i].id != id {
		i = (i + 1) & mask
	}
	m.count--
	m.slots[i] = slot[T]{}
	// Those behind it were put there because it was in their way.
	for j := (i + 1) & mask; m.slots[j].v != nil; j = (j + 1) & mask {
		s := m.slots[j]
		m.slots[j] = slot[T]{}
		m.put(s)
	}
}

// All calls f with everything. f must not change the map.
func (m *Map[T]) All(f func(id uint64, v *T)) {
	for _, s := range m.slots {
		if s.v != nil {
			f(s.id, s.v)
		}
	}
}
