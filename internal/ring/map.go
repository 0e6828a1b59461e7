// With many topics nearly every message has another topic, and its cost is determined by cache misses: in this map one
// for the slot, and one for its value.

package ring

import "math/bits"

// Map is a hash table with open addressing. Ids are hashes, and all ids of one group may have equal low bits, so the
// high bits select the slot. A client that chooses topic names can also make the high bits collide: after many
// collisions other bits select the slot. The zero value is empty. It is not safe for concurrent use.
type Map[T any] struct {
	slots  []slot[T] // their number is a power of two, at least half are free; nil: none
	shift  uint
	factor uint64 // odd: the high bits of its product with an id select the slot
	count  int
	mixed  int // number of changes of factor
}

const (
	// maxProbes is the maximum number of probed slots before factor is changed. In a half full table of a million hashes
	// no look-up needs half as many.
	maxProbes = 64
	// maxMixed bounds the number of changes of factor: a client that finds colliding ids for this many factors can find
	// more.
	maxMixed = 8
)

type slot[T any] struct {
	id uint64
	v  *T // nil: free
}

// Len returns the number of ids.
func (m *Map[T]) Len() int { return m.count }

// Get returns the value of id, or nil.
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

// Add adds v, which must not be nil, for id, which must not have a value.
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

// rebuild moves all values to n new slots.
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

// put writes s to a free slot, and returns the number of probed slots.
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

// Remove removes id, if it exists.
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
	// Later ones may be there only because this slot was in use.
	for j := (i + 1) & mask; m.slots[j].v != nil; j = (j + 1) & mask {
		s := m.slots[j]
		m.slots[j] = slot[T]{}
		m.put(s)
	}
}

// All calls f with each id and value. f must not change the map.
func (m *Map[T]) All(f func(id uint64, v *T)) {
	for _, s := range m.slots {
		if s.v != nil {
			f(s.id, s.v)
		}
	}
}
