package itch

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// MaxMessage is the longest message in bytes that a Reader takes. The longest that the exchange defines has 50; the
// room above is for types to come. A length beyond it means that the file is something else, or damaged.
const MaxMessage = 255

// frameLen is the length in bytes of the number before each message.
const frameLen = 2

// Errors of a damaged file; match with errors.Is, the FrameError around them has the place.
var (
	// ErrTruncated says that the file ends in the middle of a message.
	ErrTruncated = errors.New("file ends inside a message")
	// ErrOversize says that a length is beyond MaxMessage.
	ErrOversize = errors.New("length is beyond any message")
	// ErrTrailing says that bytes follow the end-of-session mark.
	ErrTrailing = errors.New("bytes after the end-of-session mark")
)

// FrameError says where a file is damaged, and how.
type FrameError struct {
	Offset int64 // of the frame, in bytes of the decompressed file
	Index  int64 // of the message, from 0
	Err    error // what is wrong
}

func (e *FrameError) Error() string {
	return fmt.Sprintf("offset %d (message %d): %v", e.Offset, e.Index, e.Err)
}

func (e *FrameError) Unwrap() error { return e.Err }

// Reader reads messages in BinaryFILE framing: before each message its length as a 2-byte big-endian number; a length
// of zero ends the session (Nasdaq BinaryFILE 1.00).
type Reader struct {
	src    *bufio.Reader
	close  func() error
	buf    [MaxMessage]byte
	offset int64 // of the next frame
	index  int64 // of the next message
	err    error // sticky
}

// NewReader reads from r: plain, gzip or zstd, recognized by the first bytes and not by a name. That is unambiguous: as
// lengths of a first message those bytes would be 8075, 10421 or about 20000, beyond any message.
func NewReader(r io.Reader) (*Reader, error) {
	src := bufio.NewReaderSize(r, 1<<16)
	magic, err := src.Peek(4)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("itch: read: %w", err)
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}): // RFC 1952, section 2.3.1
		z, err := gzip.NewReader(src)
		if err != nil {
			return nil, fmt.Errorf("itch: gzip: %w", err)
		}
		return &Reader{src: bufio.NewReaderSize(z, 1<<16), close: z.Close}, nil
	case isZstd(magic):
		// One goroutine is enough and ends with the reader; the window bound keeps a hostile file from claiming gigabytes.
		z, err := zstd.NewReader(src, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			return nil, fmt.Errorf("itch: zstd: %w", err)
		}
		end := func() error { z.Close(); return nil }
		return &Reader{src: bufio.NewReaderSize(z, 1<<16), close: end}, nil
	}
	return &Reader{src: src, close: func() error { return nil }}, nil
}

// isZstd reports whether b begins with a frame of RFC 8878, section 3.1: a
// Zstandard frame, or the skippable frame that parallel compressors put first.
func isZstd(b []byte) bool {
	if len(b) < 4 {
		return false
	}
	magic := binary.LittleEndian.Uint32(b)
	return magic == 0xfd2fb528 || magic&^0xf == 0x184d2a50
}

// Next returns the next message, which is valid until the following call. At the end it returns io.EOF; a damaged file
// gives a *FrameError. A known type with another length than its own counts as damage.
func (r *Reader) Next() (msg []byte, err error) {
	if r.err != nil {
		return nil, r.err
	}
	if msg, err = r.next(); err != nil {
		if err != io.EOF {
			err = &FrameError{Offset: r.offset, Index: r.index, Err: err}
		}
		r.err = err
		return nil, err
	}
	r.offset += int64(frameLen + len(msg))
	r.index++
	return msg, nil
}

func (r *Reader) next() ([]byte, error) {
	head := r.buf[:frameLen]
	if n, err := io.ReadFull(r.src, head); err != nil {
		if n == 0 && err == io.EOF {
			return nil, io.EOF
		}
		return nil, truncated(err, n, frameLen)
	}
	length := int(binary.BigEndian.Uint16(head))
	switch {
	case length == 0:
		_, err := r.src.ReadByte()
		if err == nil {
			err = ErrTrailing
		}
		return nil, err
	case length > MaxMessage:
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrOversize, length, MaxMessage)
	}
	msg := r.buf[:length]
	if n, err := io.ReadFull(r.src, msg); err != nil {
		return nil, truncated(err, frameLen+n, frameLen+length)
	}
	return msg, Check(msg)
}

// truncated turns the end of the file into ErrTruncated, and leaves errors of
// the disk or of the compression as they are.
func truncated(err error, got, want int) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("%w: %d of %d bytes", ErrTruncated, got, want)
	}
	return err
}

// Close ends the decompression. It does not close what NewReader was given.
func (r *Reader) Close() error {
	if r.err == nil {
		r.err = errors.New("itch: reader is closed")
	}
	return r.close()
}

// AppendFrame appends msg, of MaxMessage bytes at most, in BinaryFILE framing.
func AppendFrame(b, msg []byte) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(msg))), msg...)
}
