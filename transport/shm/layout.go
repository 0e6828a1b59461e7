package shm

import (
	"errors"
	"github.com/fanfaremq/fanfare/transport"
	"sync/atomic"
	"unsafe"
)

// The layout of a memory file. docs/protocol §28.3. Numbers are in the byte order of the processor:
// only processes of this host can map the file.
const (
	magic = 0x354d48536e614600 // "\0FanSHM5" with the highest byte first; stored last

	lanes     = 256  // maximum of endpoints in a fabric
	laneSlots = 2048 // positions of a lane's rings, a power of two
	laneMask  = laneSlots - 1

	chunkBytes = 64 << 10 // maximum size of a train; whole pages, so that each chunk is allocated separately
	maxChunks  = 4096

	line       = 128 // two cache lines, because processors fetch them in pairs
	pageBytes  = 4096
	descriptor = 16 // bytes

	// Words of the header, 8 bytes each.
	atMagic    = 0
	atID       = 8
	atPID      = 16
	atDepth    = 24 // maximum of unreturned trains in a lane to this endpoint
	atClosed   = 32 // 1: the endpoint has ended
	atAssigned = 40 // grows with each lane that is assigned
	atAsleep   = 256

	atGroups   = pageBytes              // a bit for each joined group
	atLanes    = atGroups + maxGroups/8 // ids of the endpoints that receive the lanes
	atDropped  = atLanes + lanes*8      // of each lane: number of dropped packets, and whether it is open
	atReturned = atDropped + lanes*line // of each lane: number of returned positions
	atRings    = (atReturned+lanes*line)/pageBytes*pageBytes + pageBytes
	atReturns  = atRings + lanes*ringBytes
	atChunks   = atReturns + lanes*returnBytes // page-aligned
	fileBytes  = atChunks + maxChunks*chunkBytes

	ringBytes   = laneSlots * descriptor
	returnBytes = laneSlots * 4
)

// EndpointBytes is the maximum memory of an endpoint; almost none uses all of it.
const EndpointBytes = fileBytes

func droppedAt(lane int) int { return atDropped + lane*line }

// openAt is the word with the value 1 if a lane's descriptors are allocated: reading them before would allocate memory.
func openAt(lane int) int                { return droppedAt(lane) + 8 }
func returnedAt(lane int) int            { return atReturned + lane*line }
func laneIDAt(lane int) int              { return atLanes + lane*8 }
func ringAt(lane int, pos uint64) int    { return atRings + lane*ringBytes + int(pos&laneMask)*descriptor }
func returnsAt(lane int, pos uint64) int { return atReturns + lane*returnBytes + int(pos&laneMask)*4 }
func chunkAt(chunk uint32) int           { return atChunks + int(chunk)*chunkBytes }
func groupAt(group int) (at int, bit uint64) {
	return atGroups + group/64*8, 1 << (group & 63)
}

// word is the 8-byte number at an offset of mapped memory.
func word(mem []byte, at int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&mem[at : at+8 : at+8][0]))
}

// plain is a number of 8 or 4 bytes that is accessed without atomics: an atomic store of another word publishes it,
// which readers load first.
func plain[T uint64 | uint32](mem []byte, at int) *T {
	var n T
	end := at + int(unsafe.Sizeof(n))
	return (*T)(unsafe.Pointer(&mem[at:end:end][0]))
}

// half is the 4-byte number at an offset of mapped memory.
func half(mem []byte, at int) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&mem[at : at+4 : at+4][0]))
}

// entry is a descriptor: the chunk of a train, and the train's properties.
//
// The lap of its position shows whether it is valid: so a reader waits for only one cache line from the writer's
// processor, without reading a tail first.
type entry struct {
	chunk uint32
	off   int // offset in the chunk
	bytes int
	size  int // bytes of each packet but the last
	group int // or transport.Unicast
	// dropped is the number of packets dropped in the lane before it, modulo 2^16: so a reader counts them where they are
	// missing.
	dropped uint16
}

// void is the chunk of an entry to skip.
const void = 1<<16 - 1

// at is the offset of the train in the file.
func (e entry) at() int { return chunkAt(e.chunk) + e.off }

// lapOf is the number of the lap, from 1, in which a position is written, modulo 2^16. An entry with another lap is
// older; 0 is unused.
func lapOf(pos uint64) uint16 { return uint16(pos/laneSlots + 1) }

// words encodes the entry for a position of a ring. The second word, which makes it valid, is stored last.
func (e entry) words(pos uint64) (uint64, uint64) {
	return uint64(e.chunk)<<48 | uint64(e.off)<<32 | uint64(e.dropped)<<16 | uint64(uint16(e.bytes-1)), uint64(lapOf(pos))<<48 | uint64(e.size)<<32 | uint64(uint32(e.group))
}

// isCurrent reports whether the second word of an entry has the lap of a position.
func isCurrent(b, pos uint64) bool { return uint16(b>>48) == lapOf(pos) }

var errEntry = errors.New("shm: a descriptor is invalid")

// parseEntry parses an entry, which may be forged.
func parseEntry(a, b uint64) (entry, error) {
	e := entry{chunk: uint32(a >> 48), off: int(uint16(a >> 32)), bytes: int(uint16(a)) + 1,
		size: int(uint16(b >> 32)), group: int(int32(uint32(b))), dropped: uint16(a >> 16)}
	if e.chunk == void {
		return e, nil
	}
	if e.chunk >= maxChunks || e.off+e.bytes > chunkBytes || e.size < 1 || e.size > e.bytes || e.size > maxPacket ||
		e.group < transport.Unicast || e.group >= maxGroups {
		return entry{}, errEntry
	}
	return e, nil
}
