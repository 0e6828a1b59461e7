package cli

import (
	"bufio"
	"bytes"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxZstdWindow bounds the memory that a file can claim, in bytes.
const maxZstdWindow = 128 << 20

// gzipMagic are the first bytes of a file of gzip, with the only method there is. Without the method they are the length of
// a message, too, in the framing itch.
var gzipMagic = []byte{0x1f, 0x8b, 8}

// decompressed is what r holds, without gzip (RFC 1952, section 2.3.1) or Zstandard (RFC 8878,
// section 3.1.1), told apart by their first bytes. A file that is one message is left as it is. It returns
// io.ErrUnexpectedEOF where r ends within a header.
func decompressed(r io.Reader, f framing) (plain io.Reader, end func(), err error) {
	buf := bufio.NewReader(r)
	magic, err := buf.Peek(4)
	switch {
	case err != nil && err != io.EOF:
		return nil, nil, err
	case f == framingWhole:
	case len(magic) >= 2 && bytes.Equal(magic[:min(3, len(magic))], gzipMagic[:min(3, len(magic))]):
		z, err := gzip.NewReader(buf)
		if err != nil {
			return nil, nil, err
		}
		return z, func() { z.Close() }, nil
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(buf, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err != nil {
			return nil, nil, err
		}
		return z, z.Close, nil
	}
	return buf, func() {}, nil
}
