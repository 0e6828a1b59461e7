package shm

import (
	"testing"

	"github.com/fanfaremq/fanfare/transport"
)

// Parts of the file do not overlap. docs/protocol §28.3.
func TestLayout(t *testing.T) {
	end := 0
	for _, part := range []struct {
		name      string
		at, bytes int
	}{
		{"header", 0, pageBytes}, {"groups", atGroups, maxGroups / 8}, {"lanes", atLanes, lanes * 8}, {"dropped", droppedAt(0), lanes * line},
		{"taken", returnedAt(0), lanes * line}, {"rings", ringAt(0, 0), lanes * ringBytes}, {"returns", returnsAt(0, 0), lanes * returnBytes},
		{"chunks", chunkAt(0), maxChunks * chunkBytes},
	} {
		if part.at < end || part.at%8 != 0 {
			t.Errorf("%s begins at %d, want a multiple of 8 after %d", part.name, part.at, end)
		}
		end = part.at + part.bytes
	}
	if end > fileBytes || fileBytes%pageBytes != 0 {
		t.Errorf("the file has %d bytes of %d, want whole pages", fileBytes, end)
	}
	if a, b := ringAt(lanes-1, laneSlots-1)+descriptor, returnsAt(0, 0); a > b {
		t.Errorf("the last ring ends at %d, which is behind %d", a, b)
	}
	if at, bit := groupAt(maxGroups - 1); at+8 > atLanes || bit != 1<<63 {
		t.Errorf("the last group is bit %#x at %d, want its highest bit before %d", bit, at, atLanes)
	}
	if atChunks%pageBytes != 0 {
		t.Errorf("chunks begin at %d, want a multiple of %d", atChunks, pageBytes)
	}
}

// A descriptor is either read as it was written, or rejected: the chunk that it names is in the file. docs/protocol
// §28.4, §28.7.
func FuzzEntry(f *testing.F) {
	for _, e := range []entry{{0, 0, 1, 1, 0, 0}, {maxChunks - 1, 0, chunkBytes, maxPacket, maxGroups - 1, 1<<16 - 1}, {3, chunkBytes - 100, 100, 50, transport.Unicast, 7}, {chunk: void}} {
		a, b := e.words(laneSlots * 41)
		f.Add(a, b)
	}
	f.Add(uint64(1)<<63, uint64(0))
	f.Add(uint64(maxChunks)<<48|1, uint64(1)<<32)
	f.Add(uint64(1), uint64(0))
	f.Add(uint64(1)<<32|uint64(chunkBytes-1), uint64(1)<<32)
	f.Fuzz(func(t *testing.T, a, b uint64) {
		e, err := parseEntry(a, b)
		if err != nil || e.chunk == void {
			return
		}
		if at := e.at(); at < atChunks || at+e.bytes > fileBytes || e.bytes < 1 || e.size < 1 || e.size > e.bytes {
			t.Errorf("words %#x %#x: entry %+v lies outside the file, or has a wrong size", a, b, e)
		}
		if e.group < transport.Unicast || e.group >= maxGroups {
			t.Errorf("words %#x %#x: group %d, want it in range", a, b, e.group)
		}
		if x, y := e.words(laneSlots * (b>>48 - 1)); x != a || y != b {
			t.Errorf("words %#x %#x are %+v, which has words %#x %#x, want the same", a, b, e, x, y)
		}
	})
}

// An entry is valid only in its lap, and in no lap where nothing was written. docs/protocol §28.4.
func TestEntryIsCurrent(t *testing.T) {
	for _, lap := range []uint64{0, 1, 2, 1<<16 - 2, 1<<16 - 1, 1 << 16, 1<<20 - 1, 1 << 20} {
		for _, slot := range []uint64{0, 1, laneSlots - 1} {
			pos := lap*laneSlots + slot
			_, b := entry{bytes: 1, size: 1}.words(pos)
			if !isCurrent(b, pos) {
				t.Errorf("position %d is not valid", pos)
			}
			if isCurrent(b, pos+laneSlots) {
				t.Errorf("position %d is valid in the next lap", pos)
			}
		}
		if lap < 1<<16-1 && isCurrent(0, lap*laneSlots) {
			t.Errorf("lap %d: an entry that was never written is valid", lap)
		}
	}
}
