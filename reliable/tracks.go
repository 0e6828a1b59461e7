package reliable

import "math/bits"

// tracks are the topics of a Reader by id: a hash table with open addressing. With many
// topics nearly every message is of another one, and what it costs then is the memory
// that is not in the cache: here that is one slot, and the Track. Ids are hashes
// already, and all of one group may agree in their low bits, so the high ones choose the
// slot.
type tracks struct {
	slots []trackSlot // a power of two, half of them free at least; nil: none
	shift uint
	count int
}

type trackSlot struct {
	id uint64
	t  *Track // nil: free
}

// get returns the track of id, or nil.
func (x *tracks) get(id uint64) *Track {
	if len(x.slots) == 0 {
		return nil
	}
	for i := id >> x.shift; ; i++ {
		s := &x.slots[i&uint64(len(x.slots)-1)]
		if s.id == id || s.t == nil {
			return s.t
		}
	}
}

// add adds t, whose id has none.
func (x *tracks) add(t *Track) {
	if x.count++; 2*x.count > len(x.slots) {
		old := x.slots
		x.slots = make([]trackSlot, max(8, 2*len(old)))
		x.shift = uint(64 - bits.Len(uint(len(x.slots)-1)))
		for _, s := range old {
			if s.t != nil {
				x.put(s)
			}
		}
	}
	x.put(trackSlot{t.ID, t})
}

func (x *tracks) put(s trackSlot) {
	mask := uint64(len(x.slots) - 1)
	i := s.id >> x.shift
	for x.slots[i&mask].t != nil {
		i++
	}
	x.slots[i&mask] = s
}

// remove forgets the track of id, if there is one.
func (x *tracks) remove(id uint64) {
	if x.get(id) == nil {
		return
	}
	mask := uint64(len(x.slots) - 1)
	i := id >> x.shift & mask
	for x.slots[i].id != id {
		i = (i + 1) & mask
	}
	x.count--
	x.slots[i] = trackSlot{}
	// Those behind it were put there because it was in their way.
	for j := (i + 1) & mask; x.slots[j].t != nil; j = (j + 1) & mask {
		s := x.slots[j]
		x.slots[j] = trackSlot{}
		x.put(s)
	}
}

// all calls f with each track.
func (x *tracks) all(f func(*Track)) {
	for _, s := range x.slots {
		if s.t != nil {
			f(s.t)
		}
	}
}
