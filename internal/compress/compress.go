// Package compress compresses the runs of packets with S2 or Zstandard, with or without a dictionary. It implements
// topics.Packer and wire.Unpacker. docs/protocol §26.
package compress

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"runtime"
	"strings"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// Spec is a codec and its level.
type Spec struct {
	Codec wire.Codec
	Level string // a level of the codec; a slower one makes packets smaller. Never empty
}

// levels has the levels of each codec: the default, and then all, fastest first. Zstandard's default needs half of the
// time of the next level with a dictionary, and at most a few percent more bytes: docs/performance.md.
var levels = map[wire.Codec][]string{
	wire.CodecS2:   {"default", "default", "better"},
	wire.CodecZstd: {"fastest", "fastest", "default", "better", "best"},
}

// Parse parses a Spec, such as "s2" or "zstd:fastest". "" and "none" mean CodecNone.
func Parse(s string) (Spec, error) {
	name, level, hasLevel := strings.Cut(s, ":")
	spec := Spec{Level: level}
	switch name {
	case "", "none":
		if !hasLevel {
			return Spec{}, nil
		}
	case "s2":
		spec.Codec = wire.CodecS2
	case "zstd":
		spec.Codec = wire.CodecZstd
	}
	known := levels[spec.Codec]
	if known == nil {
		return Spec{}, fmt.Errorf("compression %q must be s2, zstd or none", s)
	}
	if !hasLevel {
		spec.Level = known[0]
		return spec, nil
	}
	for _, l := range known[1:] {
		if l == level {
			return spec, nil
		}
	}
	return Spec{}, fmt.Errorf("compression %q: level %q must be one of %s", s, level, strings.Join(known[1:], ", "))
}

func (s Spec) String() string {
	if s.Codec == wire.CodecNone {
		return s.Codec.String()
	}
	return s.Codec.String() + ":" + s.Level
}

// TakesDictionary reports whether New accepts a dictionary with s.
func (s Spec) TakesDictionary() bool { return s.Codec != wire.CodecS2 || s.Level == "default" }

// Names returns all texts that Parse accepts, for help and completion.
func Names() []string {
	names := []string{"none"}
	for _, c := range []wire.Codec{wire.CodecS2, wire.CodecZstd} {
		names = append(names, c.String())
		for _, l := range levels[c][1:] {
			names = append(names, c.String()+":"+l)
		}
	}
	return names
}

// maxWindow is the largest window of a Zstandard frame. mostEncoders is the maximum number of packets that are
// compressed concurrently, because an encoder uses some MiB. docs/protocol §26.2.
const (
	maxWindow    = 1 << 20
	mostEncoders = 4
)

// Packer implements topics.Packer.
type Packer struct {
	*Unpacker // for its own packets
	spec      Spec
	dict      *Dictionary // nil: none
	zstd      *zstd.Encoder
}

// New returns a Packer for spec, which must not be CodecNone, with the dictionary dict, unless it is nil. Any goroutine
// may use it. It returns an error for a dictionary that does not fit spec.
func New(spec Spec, dict *Dictionary) (*Packer, error) {
	if dict != nil && !spec.TakesDictionary() {
		return nil, fmt.Errorf("compression %s cannot use a dictionary: with one it would make large tables for each packet; use s2 or zstd", spec)
	}
	p := &Packer{spec: spec, dict: dict, Unpacker: NewUnpacker(nil)}
	if dict != nil {
		p.Unpacker = NewUnpacker([]*Dictionary{dict})
	}
	if spec.Codec == wire.CodecZstd {
		_, level := zstd.EncoderLevelFromString(spec.Level)
		opts := []zstd.EOption{
			zstd.WithEncoderLevel(level), zstd.WithEncoderCRC(false), zstd.WithWindowSize(maxWindow / 4),
			zstd.WithEncoderConcurrency(min(mostEncoders, runtime.GOMAXPROCS(0))), zstd.WithLowerEncoderMem(true),
		}
		if dict != nil {
			opts = append(opts, dict.encoderOption())
		}
		var err error
		if p.zstd, err = zstd.NewWriter(nil, opts...); err != nil {
			return nil, fmt.Errorf("compression %s: %w", spec, err)
		}
	}
	return p, nil
}

func (p *Packer) Kind() (wire.Codec, uint32) {
	if p.dict == nil {
		return p.spec.Codec, 0
	}
	return p.spec.Codec, p.dict.Hash
}

func (p *Packer) Pack(dst, runs []byte) []byte {
	if p.zstd != nil {
		return p.zstd.EncodeAll(runs, dst)
	}
	n := len(dst)
	return dst[:n+len(p.packS2(dst[n:cap(dst)], runs))]
}

func (p *Packer) packS2(dst, runs []byte) []byte {
	switch {
	case p.dict != nil:
		return p.dict.s2.Encode(dst, runs)
	case p.spec.Level == "better":
		return s2.EncodeBetter(dst, runs)
	}
	return s2.Encode(dst, runs)
}

// Dictionary has content that packets have in common, so that even short packets can be compressed.
type Dictionary struct {
	Hash  uint32 // identifies it in packets
	Bytes []byte
	s2    *s2.Dict
}

const (
	// MinDictionary and MaxDictionary are the sizes of a dictionary in bytes. S2 uses the last 64 KiB of it.
	MinDictionary = 16
	MaxDictionary = 1 << 20

	zstdMagic = 0xec30a437
)

// NewDictionary returns a dictionary with these bytes, which the caller must not change afterwards: one in the format
// of Zstandard (RFC 8878, §5), or any bytes that packets have in common.
func NewDictionary(b []byte) (*Dictionary, error) {
	if len(b) < MinDictionary || len(b) > MaxDictionary {
		return nil, fmt.Errorf("a dictionary of %d bytes is not within %d..%d", len(b), MinDictionary, MaxDictionary)
	}
	sum := sha256.Sum256(b)
	d := &Dictionary{Hash: binary.BigEndian.Uint32(sum[:]), Bytes: b}
	if d.Hash == 0 {
		return nil, fmt.Errorf("the hash of the dictionary is 0, which means none: change a byte")
	}
	if d.formatted() {
		if _, err := zstd.InspectDictionary(b); err != nil {
			return nil, fmt.Errorf("the dictionary begins like one of Zstandard, but is invalid: %w", err)
		}
	}
	d.s2 = s2.MakeDict(b, nil)
	return d, nil
}

// formatted reports whether the dictionary is in the format of Zstandard.
func (d *Dictionary) formatted() bool { return binary.LittleEndian.Uint32(d.Bytes) == zstdMagic }

func (d *Dictionary) encoderOption() zstd.EOption {
	if d.formatted() {
		return zstd.WithEncoderDict(d.Bytes)
	}
	return zstd.WithEncoderDictRaw(d.Hash, d.Bytes)
}

func (d *Dictionary) decoderOption() zstd.DOption {
	if d.formatted() {
		return zstd.WithDecoderDicts(d.Bytes)
	}
	return zstd.WithDecoderDictRaw(d.Hash, d.Bytes)
}

// Name returns the name that users see: the hash in eight hexadecimal digits.
func (d *Dictionary) Name() string { return fmt.Sprintf("%08x", d.Hash) }
