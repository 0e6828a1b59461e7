package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A data packet with a codec in its header holds its runs compressed, and says by which codec and dictionary, and
// how long they are. docs/protocol §26:
//
//	+---------------------------------------------------------------+
//	|                           sequence                            |  32
//	+-------+-------+-------+-------+-------+-------+-------+-------+
//	|  packet size  |  runs' length |          dictionary           |  40
//	+-------+-------+-------+-------+-------+-------+-------+-------+
//	| compressed runs ...                                           |  48
//
// It is not padded. A packet without a codec has zeros there.

// Codec says how the runs of a data packet are compressed.
type Codec uint8

const (
	CodecNone Codec = 0
	CodecS2   Codec = 1
	CodecZstd Codec = 2

	LastCodec = CodecZstd // of this version
)

func (c Codec) String() string {
	switch c {
	case CodecNone:
		return "none"
	case CodecS2:
		return "s2"
	case CodecZstd:
		return "zstd"
	}
	return fmt.Sprintf("codec(%d)", uint8(c))
}

// MaxRuns is how many bytes of runs a packet holds at most, however short they are compressed.
const MaxRuns = MaxPacket - DataHeaderLen

// ErrDictionary says that runs are compressed with a dictionary that is not known.
var ErrDictionary = errors.New("wire: runs are compressed with a dictionary that is not known")

// Packed is the content of a data packet with compressed runs.
type Packed struct {
	Codec Codec
	Dict  uint32 // of the dictionary: the first 4 bytes of its SHA-256, the first one the highest; 0: none
	Len   int    // bytes of the runs
	Bytes []byte // compressed
}

// Unpacker decompresses runs. Any goroutine may use it.
type Unpacker interface {
	// Unpack appends the runs that p holds to dst: p.Len bytes, or there is an error. It
	// writes no more than that, whatever p holds. ErrDictionary: the dictionary is not known.
	Unpack(dst []byte, p Packed) ([]byte, error)
}

// CodecOf is the codec of the data packet b.
func CodecOf(b []byte) Codec { return Codec(b[5]) }

// PutPacked makes the data packet b one with compressed runs: p.Bytes. The header is to be written already, and they
// behind it.
func PutPacked(b []byte, p *Packed) {
	b[5] = byte(p.Codec)
	binary.LittleEndian.PutUint16(b[42:], uint16(p.Len))
	binary.LittleEndian.PutUint32(b[44:], p.Dict)
}

// ParsePacked reads the data packet b. Its header has been parsed and names a codec. docs/protocol §26.3.
func ParsePacked(b []byte) (Packed, error) {
	if len(b) < DataHeaderLen {
		return Packed{}, ErrShort
	}
	p := Packed{
		Codec: Codec(b[5]),
		Len:   int(binary.LittleEndian.Uint16(b[42:])),
		Dict:  binary.LittleEndian.Uint32(b[44:]),
		Bytes: b[DataHeaderLen:],
	}
	if len(p.Bytes) == 0 {
		return Packed{}, ErrShort
	}
	if p.Codec == CodecNone || p.Len > MaxRuns || len(p.Bytes) >= p.Len {
		return Packed{}, ErrMalformed
	}
	return p, nil
}

// Unpack writes the data packet b, which has compressed runs, as if they were not, into
// dst, which it enlarges if need be. The packet is checked as ParseData checks others.
// It has no checksum that is right. ErrUnsupported: a codec or a kind of run is not known.
func Unpack(u Unpacker, dst, b []byte) ([]byte, error) {
	p, err := ParsePacked(b)
	if err != nil {
		return nil, err
	}
	if n := DataHeaderLen + p.Len; cap(dst) < n {
		dst = make([]byte, 0, n)
	}
	dst = append(dst[:0], b[:DataHeaderLen]...)
	PutPacked(dst, &Packed{})
	if dst, err = u.Unpack(dst, p); err != nil {
		return nil, err
	}
	if len(dst) != DataHeaderLen+p.Len {
		return nil, ErrMalformed
	}
	if _, _, err := checkRuns(dst[DataHeaderLen:]); err != nil {
		return nil, err
	}
	return dst, nil
}
