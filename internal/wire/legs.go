package wire

import (
	"encoding/binary"
	"slices"
)

// MaxLegs is how many legs a bus has at most: networks, or ranges of addresses, that carry the same.
const MaxLegs = 4

// Legs are the tags that a group has on each leg of a bus with several, in the order of the
// bus: the first N. N is zero where there is one leg.
type Legs struct {
	N    int
	Tags [MaxLegs]uint32
}

// LegsOf returns the legs with those tags: none for a single one.
func LegsOf(tags []uint32) (l Legs) {
	if len(tags) > 1 {
		l.N = copy(l.Tags[:], tags)
	}
	return l
}

// List is the tags.
func (l *Legs) List() []uint32 { return l.Tags[:l.N] }

// Has reports whether a publisher that sends packets with that tag, and heartbeats that list these legs, is on the leg
// with another tag.
func (l *Legs) Has(tag, leg uint32) bool { return tag == leg || slices.Contains(l.List(), leg) }

// legTagLen is the length of one of them in a packet.
const legTagLen = 4

func (l *Legs) put(p []byte) {
	for i, tag := range l.List() {
		binary.LittleEndian.PutUint32(p[i*legTagLen:], tag)
	}
}

// legs reads n of them.
func legs(b []byte, n int) (l Legs) {
	l.N = n
	for i := range l.List() {
		l.Tags[i] = binary.LittleEndian.Uint32(b[i*legTagLen:])
	}
	return l
}
