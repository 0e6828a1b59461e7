package reliable

import (
	"github.com/fanfaremq/fanfare/internal/wire"
)

// How a publisher compresses. docs/protocol §26.
//
// A Writer fills packets as it does without compression. When they get their sequences, the runs of as many of them as
// fit one packet compressed go into one: that is where bytes are saved. The compressed packet takes the memory of the
// first of them, or before: so the packets of a block lie in the order of their sequences.

// Packer compresses runs.
type Packer interface {
	wire.Unpacker
	// Kind is what it compresses with, which does not change.
	Kind() (codec wire.Codec, dictionary uint32)
	// Pack appends runs to dst, compressed. dst has room for PackedRoom bytes more.
	Pack(dst, runs []byte) []byte
}

// PackedRoom is how many bytes a Packer may take for the runs of one packet, which may not get any shorter.
const PackedRoom = wire.MaxRuns + wire.MaxRuns/8 + 1024

// packing is a stream's way to compress.
type packing struct {
	packer      Packer
	kind        wire.Packed
	plain       []byte // runs of the packets that share one
	packed      []byte // what has become of them
	ratios      ratios
	tries       uint     // packets that were compressed
	short, full futility // of packets that are not half full, and of others

	looked uint64 // sequence of the packet in look
	look   []byte // that was unpacked last, to be read again
}

// oneMoreEvery is how often one more packet is tried than the ratios promise: data change.
const oneMoreEvery = 32

// ratios are of the compressed bytes to the plain ones, by how many packets share one, smoothed: with
// more to look at they get better.
type ratios [maxShare + 1]float64

const (
	// maxShare is how many packets share one at most.
	maxShare = 64
	// ratioAtFirst is the ratio of one packet that is taken for granted at first, and ratioStep
	// how much better that of one more is, until it was tried. ratioWeight is that of a new one.
	ratioAtFirst = 0.6
	ratioStep    = 0.85
	ratioWeight  = 0.125
)

// of returns the ratio for n packets.
func (r *ratios) of(n int) float64 {
	better := 1.0
	for ; n > 0; n-- {
		if r[n] > 0 {
			return r[n] * better
		}
		better *= ratioStep
	}
	return ratioAtFirst * better
}

// add takes in what n packets have come to.
func (r *ratios) add(n int, ratio float64) {
	if r[n] == 0 {
		r[n] = ratio
	}
	r[n] += ratioWeight * (ratio - r[n])
}

// futility decides when to compress what did not get any shorter of late.
type futility struct {
	row  int // packets in a row that did not get shorter
	pass int // packets to go before the next one is tried
}

const (
	// mostFutile is how many packets in a row may not get shorter before only every futileEvery-th is tried.
	mostFutile  = 8
	futileEvery = 64
)

// tries reports whether the next packet is to be tried.
func (f *futility) tries() bool {
	if f.pass > 0 {
		f.pass--
		return false
	}
	return true
}

// tried notes whether one got shorter.
func (f *futility) tried(shorter bool) {
	if shorter {
		f.row = 0
	} else if f.row++; f.row >= mostFutile {
		f.pass = futileEvery - 1
	}
}

// futility returns the count for packets with so many bytes of runs.
func (x *packing) futility(bytes, packetSize int) *futility {
	if bytes < packetSize/2 {
		return &x.short // they take a dictionary, or other runs beside them
	}
	return &x.full
}

func newPacking(p Packer) *packing {
	x := &packing{packer: p, plain: make([]byte, 0, wire.MaxRuns), packed: make([]byte, 0, wire.DataHeaderLen+PackedRoom),
		looked: noSeq}
	x.kind.Codec, x.kind.Dict = p.Kind()
	return x
}

// pack is assign for the next packet of w and as many behind it as fit it compressed. size is what has been admitted.
func (s *Sender) pack(now Instant, w *Writer, size int) {
	x := s.packing
	n := x.share(w)
	for n > 0 {
		x.gather(w, n)
		if x.compress(n, s.cfg.PacketSize) {
			break
		}
		w.unnumber(n)
		n = x.fewer(n, s.cfg.PacketSize)
	}
	first, last := w.assigned, w.assigned+max(1, n)
	for _, l := range w.b.lens[first:last] {
		s.stats.BytesUnpacked += uint64(l)
	}
	if n == 0 {
		w.number(1)
	}
	messages := uint64(0)
	for end := w.runsBelow(last); w.assignedRuns < end; w.assignedRuns++ {
		r := &w.runs[w.assignedRuns]
		s.numbered(now, w, r, wire.RunNumber(w.b.mem[r.off:]), s.win.next)
		messages += uint64(r.messages)
	}
	s.written(messages)
	off := w.packed * s.cfg.PacketSize
	w.packed++
	if n == 0 {
		copy(w.b.mem[off:], w.b.mem[w.b.offs[first]:][:size])
	} else {
		p := w.b.mem[off:][:wire.DataHeaderLen+len(x.packed)]
		copy(p, s.template[:])
		copy(p[wire.DataHeaderLen:], x.packed)
		wire.PutPacked(p, &x.kind)
		s.limiter.correct(size - len(p))
		size = len(p)
		s.stats.PacketsPacked++
	}
	w.assigned = last
	s.sequence(w.b, []uint32{uint32(off)}, []uint16{uint16(size)})
}

// share is how many packets are to share one; 0 where it is not worth trying.
func (x *packing) share(w *Writer) int {
	size := w.s.cfg.PacketSize
	room := float64(size - wire.DataHeaderLen)
	x.tries++
	more := x.tries%oneMoreEvery == 0
	n, bytes := 0, 0
	for i := w.assigned; i < w.open; i++ {
		bytes += int(w.b.lens[i]) - wire.DataHeaderLen
		if n > 0 && (n == maxShare || bytes > wire.MaxRuns) {
			break
		}
		if n > 0 && float64(bytes)*x.ratios.of(n+1) > room {
			if !more {
				break
			}
			more = false
		}
		n++
	}
	if !x.futility(bytes, size).tries() {
		return 0
	}
	return n
}

// gather numbers the runs of the next n packets and lays them one behind the other.
func (x *packing) gather(w *Writer, n int) {
	w.number(n)
	x.plain = x.plain[:0]
	for i := w.assigned; i < w.assigned+n; i++ {
		x.plain = append(x.plain, w.b.mem[w.b.offs[i]:][wire.DataHeaderLen:w.b.lens[i]]...)
	}
}

// compress compresses what was gathered. It reports false where it does not fit a packet of
// packetSize bytes, or is no shorter.
func (x *packing) compress(n, packetSize int) bool {
	x.packed = x.packed[:0]
	if len(x.plain) == 0 {
		return false
	}
	x.packed = x.packer.Pack(x.packed, x.plain)
	x.kind.Len = len(x.plain)
	x.ratios.add(n, float64(len(x.packed))/float64(len(x.plain)))
	if len(x.packed) > packetSize-wire.DataHeaderLen || len(x.packed) >= len(x.plain) {
		return false
	}
	x.futility(len(x.plain), packetSize).tried(true)
	return true
}

// fewer is how many packets are tried after n were too many; 0: they go as they are.
func (x *packing) fewer(n, packetSize int) int {
	if n > 1 {
		fit := int(float64(n) * float64(packetSize-wire.DataHeaderLen) / float64(max(1, len(x.packed))))
		return max(1, min(n-1, fit))
	}
	x.futility(len(x.plain), packetSize).tried(false)
	return 0
}

// number gives the runs of the next n packets their numbers, and unnumber takes them back:
// others may have messages of the same topics before those get their sequence.
func (w *Writer) number(n int) {
	for i := w.assignedRuns; i < w.runsBelow(w.assigned+n); i++ {
		r := &w.runs[i]
		wire.SetRunNumber(w.b.mem[r.off:], r.topic.next)
		r.topic.next += uint64(r.messages)
	}
}

func (w *Writer) unnumber(n int) {
	for i := w.assignedRuns; i < w.runsBelow(w.assigned+n); i++ {
		w.runs[i].topic.next -= uint64(w.runs[i].messages)
	}
}

// runs are the runs of packet seq of the window.
func (s *Sender) runs(seq uint64) []byte {
	p := s.blocks.packet(s.win.at(seq))
	if wire.CodecOf(p) == wire.CodecNone {
		return PacketData(p)
	}
	x := s.packing
	if x.looked != seq {
		b, err := wire.Unpack(x.packer, x.look, p)
		if err != nil {
			panic("reliable: a packet of our own cannot be unpacked: " + err.Error())
		}
		x.look, x.looked = b, seq
	}
	return PacketData(x.look)
}
