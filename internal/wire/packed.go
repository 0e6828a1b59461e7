package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A data packet with a codec in its header has compressed runs, their decompressed length, and the id of the
// dictionary. docs/protocol §26:
//
//	+---------------------------------------------------------------+
//	|                           sequence                            |  32
//	+-------+-------+-------+-------+-------+-------+-------+-------+
//	|  packet size  |  runs' length |          dictionary           |  40
//	+-------+-------+-------+-------+-------+-------+-------+-------+
//	| compressed runs ...                                           |  48
//
// It is not padded. A packet without a codec has zeros there.

// Codec is the compression of the runs of a data packet.
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

// MaxRuns is the maximum size of a packet's runs in bytes, decompressed.
const MaxRuns = MaxPacket - DataHeaderLen

// ErrDictionary is returned for runs that are compressed with an unknown dictionary.
var ErrDictionary = errors.New("wire: runs are compressed with an unknown dictionary")

// Packed is the content of a data packet with compressed runs.
type Packed struct {
	Codec Codec
	Dict  uint32 // of the dictionary: the first 4 bytes of its SHA-256, big-endian; 0: none
	Len   int    // bytes of the runs, decompressed
	Bytes []byte // compressed
}

// Unpacker decompresses runs. Any goroutine may use it.
type Unpacker interface {
	// Unpack appends the runs of p to dst: exactly p.Len bytes, or it returns an error. It never writes more, whatever p
	// holds. ErrDictionary: the dictionary is not known.
	Unpack(dst []byte, p Packed) ([]byte, error)
}

// CodecOf returns the codec of the data packet b.
func CodecOf(b []byte) Codec { return Codec(b[5]) }

// PutPacked marks the data packet b as one with compressed runs. The caller has already written the header, and p.Bytes
// after it.
func PutPacked(b []byte, p *Packed) {
	b[5] = byte(p.Codec)
	binary.LittleEndian.PutUint16(b[42:], uint16(p.Len))
	binary.LittleEndian.PutUint32(b[44:], p.Dict)
}

// ParsePacked parses the data packet b after ParseHeader; its header has a codec. docs/protocol §26.3.
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

// Unpack writes the data packet b, which has compressed runs, into dst with decompressed runs, and enlarges dst if
// necessary. It checks the result as ParseData does; its checksum is not valid. ErrUnsupported: a codec or a kind of
// run is not known.
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
