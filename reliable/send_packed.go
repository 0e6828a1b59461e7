package reliable

import (
	"github.com/fanfaremq/fanfare/internal/wire"
)

// How a publisher compresses. docs/protocol §26.
//
// A Writer fills packets as without compression. When they get their sequences, the runs of as many of them as fit one
// packet when compressed are combined: only fewer packets save bandwidth. The compressed packet is stored at or before
// the memory of the first of them, so the packets of a block stay in the order of their sequences.

// Packer compresses runs.
type Packer interface {
	wire.Unpacker
	// Kind returns the codec and the dictionary, which never change.
	Kind() (codec wire.Codec, dictionary uint32)
	// Pack appends the compressed runs to dst, which has room for PackedRoom more bytes.
	Pack(dst, runs []byte) []byte
}

// PackedRoom is the most bytes that a Packer may use for the runs of one packet, which may not be compressible.
const PackedRoom = wire.MaxRuns + wire.MaxRuns/8 + 1024

// packing is the compression of a stream.
type packing struct {
	packer      Packer
	kind        wire.Packed
	plain       []byte // runs to be compressed together
	packed      []byte // the same, compressed
	ratios      ratios
	tries       uint     // calls of share
	short, full futility // of packets with few bytes of runs, and of others

	unpackedSeq uint64 // sequence of the packet in unpacked
	unpacked    []byte // the packet that runs last decompressed, to be read again
}

// oneMoreEvery is how often one more packet is tried than the ratios predict, since the data may change.
const oneMoreEvery = 32

// ratios are smoothed ratios of compressed to plain bytes, by the number of packets combined: more data compresses
// better.
type ratios [maxShare + 1]float64

const (
	// maxShare is the maximum number of packets combined.
	maxShare = 64
	// ratioAtFirst is the assumed ratio of one packet, ratioStep the assumed improvement by one more packet, before they
	// are measured. ratioWeight is the weight of a new measurement.
	ratioAtFirst = 0.6
	ratioStep    = 0.85
	ratioWeight  = 0.125
)

// of returns the expected ratio for n packets.
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

// add adds a measured ratio for n packets.
func (r *ratios) add(n int, ratio float64) {
	if r[n] == 0 {
		r[n] = ratio
	}
	r[n] += ratioWeight * (ratio - r[n])
}

// futility limits compression attempts that would probably fail.
type futility struct {
	row  int // failed attempts in a row
	pass int // packets to skip before the next attempt
}

const (
	// mostFutile is the number of failed attempts in a row from which on only every futileEvery-th packet is tried.
	mostFutile  = 8
	futileEvery = 64
)

// tries reports whether to compress the next packet.
func (f *futility) tries() bool {
	if f.pass > 0 {
		f.pass--
		return false
	}
	return true
}

// tried records whether compression made a packet shorter.
func (f *futility) tried(shorter bool) {
	if shorter {
		f.row = 0
	} else if f.row++; f.row >= mostFutile {
		f.pass = futileEvery - 1
	}
}

// futility returns the counter for packets with that many bytes of runs.
func (x *packing) futility(bytes, packetSize int) *futility {
	if bytes < packetSize/2 {
		return &x.short // compressible only with a dictionary, or in combination
	}
	return &x.full
}

func newPacking(p Packer) *packing {
	x := &packing{packer: p, plain: make([]byte, 0, wire.MaxRuns), packed: make([]byte, 0, wire.DataHeaderLen+PackedRoom),
		unpackedSeq: noSeq}
	x.kind.Codec, x.kind.Dict = p.Kind()
	return x
}

// pack is assign with compression: it gives a sequence to one packet, made of the next packet of w and of as many
// behind it as fit. size is the size that was admitted.
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

// share is how many packets to try to combine; 0: compression is not worth an attempt.
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

// gather numbers the runs of the next n packets and concatenates them in plain.
func (x *packing) gather(w *Writer, n int) {
	w.number(n)
	x.plain = x.plain[:0]
	for i := w.assigned; i < w.assigned+n; i++ {
		x.plain = append(x.plain, w.b.mem[w.b.offs[i]:][wire.DataHeaderLen:w.b.lens[i]]...)
	}
}

// compress compresses plain. It reports false if the result exceeds a packet of packetSize bytes, or is no shorter.
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

// fewer is how many packets to try after n did not fit; 0: none is compressed.
func (x *packing) fewer(n, packetSize int) int {
	if n > 1 {
		fit := int(float64(n) * float64(packetSize-wire.DataHeaderLen) / float64(max(1, len(x.packed))))
		return max(1, min(n-1, fit))
	}
	x.futility(len(x.plain), packetSize).tried(false)
	return 0
}

// number gives the runs of the next n packets their numbers. unnumber takes the numbers back: another writer may assign
// messages of the same topics first.
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

// runs returns the decompressed runs of packet seq of the window.
func (s *Sender) runs(seq uint64) []byte {
	p := s.blocks.packet(s.win.at(seq))
	if wire.CodecOf(p) == wire.CodecNone {
		return PacketData(p)
	}
	x := s.packing
	if x.unpackedSeq != seq {
		b, err := wire.Unpack(x.packer, x.unpacked, p)
		if err != nil {
			panic("reliable: a packet of our own cannot be unpacked: " + err.Error())
		}
		x.unpacked, x.unpackedSeq = b, seq
	}
	return PacketData(x.unpacked)
}
