package compress

import (
	"encoding/binary"
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// Unpacker implements wire.Unpacker. It allocates no memory before the first packet.
type Unpacker struct {
	of map[uint32]*decoder // key: hash of the dictionary; 0: none
}

// decoder is the state of one dictionary.
type decoder struct {
	dict *Dictionary // nil: none
	once sync.Once
	zstd *zstd.Decoder // set by once; nil: it cannot be made
}

// NewUnpacker returns an Unpacker with these dictionaries.
func NewUnpacker(dicts []*Dictionary) *Unpacker {
	u := &Unpacker{of: map[uint32]*decoder{0: {}}}
	for _, d := range dicts {
		u.of[d.Hash] = &decoder{dict: d}
	}
	return u
}

func (u *Unpacker) Unpack(dst []byte, p wire.Packed) ([]byte, error) {
	d := u.of[p.Dict]
	if d == nil {
		return nil, wire.ErrDictionary
	}
	n := len(dst)
	if cap(dst)-n < p.Len {
		dst = append(make([]byte, 0, n+p.Len), dst...)
	}
	room := dst[n : n : n+p.Len] // so that no codec can write beyond it
	var got []byte
	var err error
	switch p.Codec {
	case wire.CodecZstd:
		got, err = d.unzstd(room, p.Bytes)
	case wire.CodecS2:
		got, err = d.uns2(room, &p)
	default:
		err = wire.ErrUnsupported
	}
	if err != nil {
		return nil, err
	}
	if len(got) != p.Len {
		return nil, wire.ErrMalformed
	}
	return dst[:n+p.Len], nil
}

func (d *decoder) unzstd(room, b []byte) ([]byte, error) {
	d.once.Do(func() {
		opts := []zstd.DOption{
			zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderMaxMemory(maxWindow),
			zstd.WithDecoderLowmem(true), zstd.WithDecoderConcurrency(0),
		}
		if d.dict != nil {
			opts = append(opts, d.dict.decoderOption())
		}
		d.zstd, _ = zstd.NewReader(nil, opts...)
	})
	if d.zstd == nil {
		return nil, wire.ErrUnsupported
	}
	if !oneFrame(b) {
		return nil, wire.ErrMalformed
	}
	return d.zstd.DecodeAll(b, room)
}

// oneFrame reports whether b is exactly one frame with content: the decoder would accept several, and skip
// empty ones. RFC 8878, §3.1.1, docs/protocol §26.2.
func oneFrame(b []byte) bool {
	const blockHeader, repeated, checksum = 3, 1, 4
	var h zstd.Header
	if h.Decode(b) != nil || h.Skippable {
		return false
	}
	b = b[h.HeaderSize:]
	for last := false; !last; {
		if len(b) < blockHeader {
			return false
		}
		x := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16
		last = x&1 != 0
		size := int(x >> 3)
		if x>>1&3 == repeated {
			size = 1
		}
		if b = b[blockHeader:]; len(b) < size {
			return false
		}
		b = b[size:]
	}
	if h.HasCheckSum {
		return len(b) == checksum
	}
	return len(b) == 0
}

func (d *decoder) uns2(room []byte, p *wire.Packed) ([]byte, error) {
	if n, _ := binary.Uvarint(p.Bytes); n != uint64(p.Len) {
		return nil, wire.ErrMalformed // before it is used
	}
	if d.dict == nil {
		return s2.Decode(room, p.Bytes)
	}
	return d.dict.s2.Decode(room, p.Bytes)
}
