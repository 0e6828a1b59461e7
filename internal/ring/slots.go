// Package ring holds the receive side's packet memory: slots of a fixed size
// (Slots), and the log of a stream's packets in order, which any number of
// cursors read at their own speed without a lock (Log, Cursor).
package ring

import "fmt"

// NoSlot is not a slot.
const NoSlot = ^uint32(0)

// chunkSlots is how many slots have their memory in one piece, a power of two.
const (
	chunkShift = 6
	chunkSlots = 1 << chunkShift
)

// Slots is a pool of equal pieces of memory. Slots are handed out last in, first out,
// and their memory is taken in chunks when they are first used, so that a stream with
// little in flight has little memory. It belongs to one goroutine; only Bytes of a slot
// that it was given is for any.
type Slots struct {
	chunks [][]byte // nil until used
	stride int      // bytes a slot
	free   []uint32
	alloc  func(bytes int) ([]byte, error)
}

// NewSlots returns n slots of stride bytes, with memory of alloc's.
func NewSlots(n, stride int, alloc func(bytes int) ([]byte, error)) *Slots {
	s := &Slots{chunks: make([][]byte, (n+chunkSlots-1)/chunkSlots), stride: stride, free: make([]uint32, n), alloc: alloc}
	for i := range s.free {
		s.free[i] = uint32(n - 1 - i) // slot 0 on top
	}
	return s
}

// Free is the number of slots that can be had.
func (s *Slots) Free() int { return len(s.free) }

// Stride is the size of a slot in bytes.
func (s *Slots) Stride() int { return s.stride }

// Memory is how many bytes have been taken from alloc.
func (s *Slots) Memory() int {
	bytes := 0
	for _, c := range s.chunks {
		bytes += len(c)
	}
	return bytes
}

// Chunks are what alloc has returned, and nil.
func (s *Slots) Chunks() [][]byte { return s.chunks }

// Put copies p into a free slot. It reports false when there is none, no memory for it,
// or p is larger than a slot.
func (s *Slots) Put(p []byte) (uint32, bool) {
	if len(s.free) == 0 || len(p) > s.stride {
		return NoSlot, false
	}
	slot := s.free[len(s.free)-1]
	c := s.chunks[slot>>chunkShift]
	if c == nil {
		if c = s.chunk(slot >> chunkShift); c == nil {
			return NoSlot, false
		}
	}
	s.free = s.free[:len(s.free)-1]
	copy(c[int(slot%chunkSlots)*s.stride:], p)
	return slot, true
}

// chunk takes memory for the i-th chunk, nil if there is none.
func (s *Slots) chunk(i uint32) []byte {
	n := min(chunkSlots, cap(s.free)-int(i)*chunkSlots)
	c, err := s.alloc(n * s.stride)
	if err != nil {
		return nil
	}
	s.chunks[i] = c
	return c
}

// Bytes returns the first size bytes of slot.
func (s *Slots) Bytes(slot uint32, size int) []byte {
	lo := int(slot%chunkSlots) * s.stride
	return s.chunks[slot>>chunkShift][lo : lo+size : lo+size]
}

// Release gives a slot back.
func (s *Slots) Release(slot uint32) {
	if len(s.free) == cap(s.free) {
		panic(fmt.Sprintf("ring: slot %d released twice", slot))
	}
	s.free = append(s.free, slot)
}
