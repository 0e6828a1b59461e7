package tap

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// unpacked is what r holds, without gzip.
func unpacked(r *bufio.Reader) (*bufio.Reader, error) {
	if b, err := r.Peek(2); err != nil || b[0] != 0x1f || b[1] != 0x8b {
		return r, nil
	}
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("not a capture file: %w", err)
	}
	return bufio.NewReader(z), nil
}

// blocks passes on the blocks of a pcapng file that hold packets or say how to read them.
// All others, which a reader might collect, are left out; memory stays bounded.
type blocks struct {
	r          *bufio.Reader
	big        bool
	interfaces int
	left       int64 // bytes of the block under way
}

// Types of blocks: https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-03.html
const (
	blockSection   = 0x0a0d0d0a
	blockInterface = 1
	blockPacket    = 2
	blockSimple    = 3
	blockEnhanced  = 6

	maxBlock      = maxFrame + 1<<16
	maxInterfaces = 4096 // of a section
)

func newBlocks(r *bufio.Reader) *blocks { return &blocks{r: r} }

// Read implements io.Reader.
func (b *blocks) Read(p []byte) (int, error) {
	for b.left == 0 {
		if err := b.next(); err != nil {
			return 0, err
		}
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// next begins the next block that is to be passed on.
func (b *blocks) next() error {
	begin, err := b.r.Peek(12)
	if len(begin) == 0 && err != nil {
		return err
	}
	if err != nil {
		return io.ErrUnexpectedEOF
	}
	kind := b.uint32(begin)
	if kind == blockSection {
		b.big = binary.BigEndian.Uint32(begin[8:]) == 0x1a2b3c4d
		b.interfaces = 0
	}
	length := int64(b.uint32(begin[4:]))
	if length < 12 || length&3 != 0 {
		return fmt.Errorf("a block of %d bytes", length)
	}
	switch kind {
	case blockInterface:
		if b.interfaces++; b.interfaces > maxInterfaces {
			return fmt.Errorf("more than %d interfaces", maxInterfaces)
		}
		fallthrough
	case blockSection, blockPacket, blockSimple, blockEnhanced:
		if length > maxBlock {
			return fmt.Errorf("a block of %d bytes, which is more than any frame takes", length)
		}
		b.left = length
		return nil
	}
	_, err = io.CopyN(io.Discard, b.r, length)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

func (b *blocks) uint32(x []byte) uint32 {
	if b.big {
		return binary.BigEndian.Uint32(x)
	}
	return binary.LittleEndian.Uint32(x)
}
