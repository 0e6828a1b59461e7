// Package ring has the packet memory of the receiver: slots of a fixed size (Slots), and the log of a stream's packets
// in order, which any number of cursors read at their own speed without a lock (Log, Cursor). It also has two
// containers for the hot path: Map, by ids of topics, and Set, a list of distinct values.
package ring

import (
	"fmt"
	"math/bits"
)

// NoSlot is not a slot.
const NoSlot = ^uint32(0)

// chunkBytes is the size of an allocation, unless a slot is larger: small for a stream that needs a few slots more than
// a chunk, but large enough that an allocation costs little per slot.
const chunkBytes = 64 << 10

// Slots is a pool of memory slots of equal size. The slot that was released last is used first, and memory is allocated
// in chunks when slots are first used, so that a stream with little in flight uses little memory. Only one goroutine
// may use it, except Bytes of a slot in use, which any may call.
type Slots struct {
	chunks [][]byte // nil until used
	shift  uint8    // a chunk has 1<<shift slots
	stride int      // bytes of a slot
	n      int      // slots
	fresh  int      // slots from this one on were never used
	free   []uint32 // free slots of the others
	alloc  func(bytes int, soon bool) ([]byte, error)
}

// NewSlots returns n slots of stride bytes, with memory from alloc. soon means that the memory will be filled soon: a
// stream that has filled one chunk usually fills the next, but may need only a single slot of its first.
func NewSlots(n, stride int, alloc func(bytes int, soon bool) ([]byte, error)) *Slots {
	shift := max(0, bits.Len(uint(chunkBytes/stride))-1) // the largest power of two that fits
	return &Slots{chunks: make([][]byte, (n+1<<shift-1)>>shift), shift: uint8(shift), stride: stride, n: n, alloc: alloc}
}

// Free returns the number of free slots.
func (s *Slots) Free() int { return len(s.free) + s.n - s.fresh }

// Stride returns the size of a slot in bytes.
func (s *Slots) Stride() int { return s.stride }

// Memory returns the number of bytes that alloc has returned.
func (s *Slots) Memory() int {
	bytes := 0
	for _, c := range s.chunks {
		bytes += len(c)
	}
	return bytes
}

// Chunks returns the memory that alloc has returned; unused chunks are nil.
func (s *Slots) Chunks() [][]byte { return s.chunks }

// Put copies p into a free slot. It returns false if there is none, or no memory for it, or p is larger than a slot.
func (s *Slots) Put(p []byte) (uint32, bool) {
	if s.Free() == 0 || len(p) > s.stride {
		return NoSlot, false
	}
	slot := uint32(s.fresh)
	if last := len(s.free) - 1; last >= 0 {
		slot = s.free[last]
		s.free = s.free[:last]
	} else {
		if i := slot >> (s.shift & 31); s.chunks[i] == nil && !s.more(i) {
			return NoSlot, false
		}
		s.fresh++
	}
	copy(s.Bytes(slot, len(p)), p)
	return slot, true
}

// more allocates memory for the i-th chunk. It reports whether there was any.
func (s *Slots) more(i uint32) bool {
	n := min(1<<s.shift, s.n-int(i)<<s.shift)
	c, err := s.alloc(n*s.stride, i > 0)
	if err != nil {
		return false
	}
	s.chunks[i] = c
	return true
}

// Bytes returns the first size bytes of slot.
func (s *Slots) Bytes(slot uint32, size int) []byte {
	shift := s.shift & 31 // so that the compiler knows that the shift is below 32
	lo := int(slot&(1<<shift-1)) * s.stride
	return s.chunks[slot>>shift][lo : lo+size : lo+size]
}

// Release frees a slot.
func (s *Slots) Release(slot uint32) {
	if len(s.free) == s.fresh {
		panic(fmt.Sprintf("ring: slot %d released twice", slot))
	}
	s.free = append(s.free, slot)
}
