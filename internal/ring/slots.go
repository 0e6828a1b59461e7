// Package ring holds the receive side's packet memory: slots of a fixed size
// (Slots), and the log of a stream's packets in order, which any number of
// cursors read at their own pace without a lock (Log, Cursor).
package ring

import "fmt"

// NoSlot is not a slot.
const NoSlot = ^uint32(0)

// Slots is a pool of equal pieces of one memory region. Slots are handed out
// last in, first out, so that a stream with little in flight touches little
// memory. It belongs to one goroutine.
type Slots struct {
	mem    []byte
	stride int // bytes a slot
	free   []uint32
}

// NewSlots divides mem into slots of stride bytes.
func NewSlots(mem []byte, stride int) *Slots {
	n := len(mem) / stride
	s := &Slots{mem: mem, stride: stride, free: make([]uint32, n)}
	for i := range s.free {
		s.free[i] = uint32(n - 1 - i) // slot 0 on top
	}
	return s
}

// Free is the number of slots that can be had.
func (s *Slots) Free() int { return len(s.free) }

// Stride is the size of a slot in bytes.
func (s *Slots) Stride() int { return s.stride }

// Put copies p into a free slot. It reports false when there is none, or p is
// larger than a slot.
func (s *Slots) Put(p []byte) (uint32, bool) {
	if len(s.free) == 0 || len(p) > s.stride {
		return NoSlot, false
	}
	slot := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	copy(s.mem[int(slot)*s.stride:], p)
	return slot, true
}

// Bytes returns the first size bytes of slot.
func (s *Slots) Bytes(slot uint32, size int) []byte {
	lo := int(slot) * s.stride
	return s.mem[lo : lo+size : lo+size]
}

// Release gives a slot back.
func (s *Slots) Release(slot uint32) {
	if len(s.free) == cap(s.free) {
		panic(fmt.Sprintf("ring: slot %d released twice", slot))
	}
	s.free = append(s.free, slot)
}
