package topics

import (
	"github.com/fanfaremq/fanfare/internal/wire"
)

// Packets with compressed runs, at their publisher and at a receiver. docs/protocol §26.

// Compression is how a bus compresses, and what it can decompress.
type Compression struct {
	Packer   Packer        // nil: packets are not compressed
	Unpacker wire.Unpacker // nil: compressed packets are lost
}

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

// Encoder compresses the closed packets of one sender before they get their sequences. It may combine several.
//
// A Writer fills packets as without compression. When they get their sequences, the runs of as many of them as fit one
// packet when compressed are combined: only fewer packets save bandwidth.
type Encoder struct {
	packer      Packer
	packetSize  int
	kind        wire.Packed
	plain       []byte // runs to be compressed together
	packet      []byte // the packet with these runs, compressed
	ratios      ratios
	tries       uint     // calls of Share
	short, full futility // of packets with few bytes of runs, and of others
	unpackedSeq uint64   // sequence of the packet in unpacked
	unpacked    []byte   // the packet that Readable last decompressed, to be read again; nil: none
}

// NewEncoder returns the encoder of a sender with packets of packetSize bytes; nil without a Packer.
func NewEncoder(p Packer, packetSize int) *Encoder {
	if p == nil {
		return nil
	}
	x := &Encoder{packer: p, packetSize: packetSize, plain: make([]byte, 0, wire.MaxRuns),
		packet: make([]byte, 0, wire.DataHeaderLen+PackedRoom)}
	x.kind.Codec, x.kind.Dict = p.Kind()
	return x
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

// futility returns the counter for packets with that many bytes of runs.
func (x *Encoder) futility(bytes int) *futility {
	if bytes < x.packetSize/2 {
		return &x.short // compressible only with a dictionary, or in combination
	}
	return &x.full
}

// Share is how many of the next packets, of lens bytes each, to try to combine; 0: the first is sent as it is, because
// compression is not worth an attempt.
func (x *Encoder) Share(lens []uint16) int {
	room := float64(x.packetSize - wire.DataHeaderLen)
	x.tries++
	more := x.tries%oneMoreEvery == 0
	n, bytes := 0, 0
	for _, l := range lens {
		bytes += int(l) - wire.DataHeaderLen
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
	if f := x.futility(bytes); f.pass > 0 {
		f.pass--
		return 0
	}
	return n
}

// Encode combines packets at offs of mem, of lens bytes each, with numbered runs. It returns a packet with a codec,
// valid until the next call, and how many of the packets it holds; 0: the first is sent as it is.
func (x *Encoder) Encode(mem []byte, offs []uint32, lens []uint16) (packet []byte, n int) {
	for n = len(offs); n > 0; n = x.fewer(n) {
		x.plain = x.plain[:0]
		for i, off := range offs[:n] {
			x.plain = append(x.plain, mem[off:][wire.DataHeaderLen:lens[i]]...)
		}
		x.packet = append(x.packet[:0], mem[offs[0]:][:wire.DataHeaderLen]...)
		if len(x.plain) == 0 {
			continue
		}
		x.packet = x.packer.Pack(x.packet, x.plain)
		packed := len(x.packet) - wire.DataHeaderLen
		x.ratios.add(n, float64(packed)/float64(len(x.plain)))
		if len(x.packet) <= x.packetSize && packed < len(x.plain) {
			x.futility(len(x.plain)).row = 0
			x.kind.Len = len(x.plain)
			wire.PutPacked(x.packet, &x.kind)
			return x.packet, n
		}
	}
	return nil, 0
}

// fewer is how many packets to try after n did not fit, or got no shorter; 0: none is compressed.
func (x *Encoder) fewer(n int) int {
	if n > 1 {
		packed := max(1, len(x.packet)-wire.DataHeaderLen)
		return max(1, min(n-1, int(float64(n)*float64(x.packetSize-wire.DataHeaderLen)/float64(packed))))
	}
	f := x.futility(len(x.plain))
	if f.row++; f.row >= mostFutile {
		f.pass = futileEvery - 1
	}
	return 0
}

// Readable returns, without a codec, a packet of Encode that has its sequence now. It is valid until the next call.
func (x *Encoder) Readable(packet []byte) []byte {
	if seq := wire.DataSeq(packet); x.unpacked == nil || x.unpackedSeq != seq {
		b, err := wire.Unpack(x.packer, x.unpacked, packet)
		if err != nil {
			panic("topics: a packet of our own cannot be unpacked: " + err.Error())
		}
		x.unpacked, x.unpackedSeq = b, seq
	}
	return x.unpacked
}
