package tap

import (
	"bytes"
	"iter"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// split yields the packets of a UDP datagram in a capture. A host with segmentation offload
// hands a whole train to captures as if it were one datagram: packets of one stream, all of
// one length but the last, which may be shorter.
func split(b []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		size := segment(b)
		for len(b) > size {
			if !yield(b[:size:size]) {
				return
			}
			b = b[size:]
		}
		yield(b)
	}
}

// segment is the length of the packets of the train b; len(b) if it is a single packet.
func segment(b []byte) int {
	if len(b) < 2*wire.HeaderLen {
		return len(b)
	}
	stream := b[16:wire.HeaderLen] // publisher and epoch; of signed packets salt, and some of the signature
	at := wire.HeaderLen
	for range maxTries {
		i := bytes.Index(b[at:], stream)
		if i < 0 {
			break
		}
		at += i
		if size := at - 16; size >= wire.HeaderLen && (isTrain(b, size) || isSealedTrain(b, size) || isSignedTrain(b, size)) {
			return size
		}
		at++
	}
	return len(b)
}

// isTrain reports whether a packet of the same stream begins at each multiple of size, and
// receivers would take each. New data follows in sequence, repairs come in any order.
func isTrain(b []byte, size int) bool {
	if size < len(b)/maxTrain {
		return false
	}
	last, isData := uint64(0), false
	for at := 0; at < len(b); at += size {
		p := b[at:min(at+size, len(b))]
		h, err := wire.ParseHeader(p)
		if err != nil || !bytes.Equal(p[8:12], b[8:12]) || !bytes.Equal(p[16:wire.HeaderLen], b[16:wire.HeaderLen]) {
			return false
		}
		if h.Type != wire.TypeData {
			continue
		}
		d, err := wire.ParseData(p)
		if err != nil || isData && h.Flags&wire.FlagRepair == 0 && d.Seq <= last {
			return false
		}
		last, isData = d.Seq, true
	}
	return true
}

// isSealedTrain is the same for packets that are sealed: they have key, time, sender and train in
// common, and counters that follow each other. docs/protocol.md §27.2.
func isSealedTrain(b []byte, size int) bool {
	const common, header = 8, 40 // where what they have in common begins and ends
	if size < len(b)/maxTrain || !wire.IsSealed(b) {
		return false
	}
	first := wire.ParseSealed(b).Counter
	for at, i := 0, uint32(0); at < len(b); at, i = at+size, i+1 {
		p := b[at:min(at+size, len(b))]
		if !wire.IsSealed(p) || !bytes.Equal(p[common:header], b[common:header]) || wire.ParseSealed(p).Counter != first+i {
			return false
		}
	}
	return true
}

// isSignedTrain is the same for packets that are signed: they have all but their nodes in common, which follow
// each other. docs/protocol.md §29.3.
func isSignedTrain(b []byte, size int) bool {
	const node, common = 3, 4
	if size < len(b)/maxTrain || size < wire.SignedLen || !wire.IsSigned(b) {
		return false
	}
	for at, i := 0, b[node]; at < len(b); at, i = at+size, i+1 {
		p := b[at:min(at+size, len(b))]
		if len(p) < wire.SignedLen || p[node] != i || !bytes.Equal(p[:node], b[:node]) || !bytes.Equal(p[common:wire.SignedLen], b[common:wire.SignedLen]) {
			return false
		}
	}
	return true
}

const (
	maxTrain = 128 // packets of a train: udp(7), UDP_MAX_SEGMENTS
	maxTries = 8   // bounds the work for a packet that repeats its own header
)
