package wire

import (
	"encoding/binary"
	"slices"
)

// MaxLegs is the maximum number of legs of a bus: networks, or ranges of addresses, that carry the same packets.
const MaxLegs = 4

// Legs has the tags of a group on each leg of a bus with several legs, in the order of the bus: the first N. N is zero
// with one leg.
type Legs struct {
	N    int
	Tags [MaxLegs]uint32
}

// LegsOf returns the Legs with those tags: without any for a single tag.
func LegsOf(tags []uint32) (l Legs) {
	if len(tags) > 1 {
		l.N = copy(l.Tags[:], tags)
	}
	return l
}

// List returns the tags.
func (l *Legs) List() []uint32 { return l.Tags[:l.N] }

// Has reports whether a publisher that sends packets with tag, and heartbeats with these legs, also sends on the leg
// with the tag leg.
func (l *Legs) Has(tag, leg uint32) bool { return tag == leg || slices.Contains(l.List(), leg) }

// legTagLen is the length of one tag in a packet.
const legTagLen = 4

func (l *Legs) put(p []byte) {
	for i, tag := range l.List() {
		binary.LittleEndian.PutUint32(p[i*legTagLen:], tag)
	}
}

// legs parses n tags.
func legs(b []byte, n int) (l Legs) {
	l.N = n
	for i := range l.List() {
		l.Tags[i] = binary.LittleEndian.Uint32(b[i*legTagLen:])
	}
	return l
}
