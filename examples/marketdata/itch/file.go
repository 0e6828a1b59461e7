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

// MaxMessage is the longest message that a Reader accepts, in bytes. The longest that the exchange defines has 50;
// the rest is room for future types. A longer length means that the file is damaged or has another format.
const MaxMessage = 255

// frameLen is the size of the length before each message, in bytes.
const frameLen = 2

// Errors of a damaged file; match with errors.Is. The FrameError around them has the position.
var (
	// ErrTruncated: the file ends in the middle of a message.
	ErrTruncated = errors.New("file ends inside a message")
	// ErrOversize: a length exceeds MaxMessage.
	ErrOversize = errors.New("length exceeds the maximum")
	// ErrTrailing: bytes follow the end-of-session mark.
	ErrTrailing = errors.New("bytes after the end-of-session mark")
)

// FrameError is the position and kind of damage in a file.
type FrameError struct {
	Offset int64 // of the frame, in bytes of the decompressed file
	Index  int64 // of the message, from 0
	Err    error // the kind of damage
}

func (e *FrameError) Error() string {
	return fmt.Sprintf("offset %d (message %d): %v", e.Offset, e.Index, e.Err)
}

func (e *FrameError) Unwrap() error { return e.Err }

// Reader reads messages in BinaryFILE framing: each message follows its length, a 2-byte big-endian
// number; length zero ends the session (Nasdaq BinaryFILE 1.00).
type Reader struct {
	src    *bufio.Reader
	close  func() error
	buf    [MaxMessage]byte
	offset int64 // of the next frame
	index  int64 // of the next message
	err    error // sticky
}

// NewReader reads from r: plain, gzip or zstd, recognized by the first bytes. That is unambiguous: as
// the length of a first message those bytes would mean 8075, 10421 or about 20000, beyond any message.
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
		// One goroutine is enough, and ends with the reader; the window limit keeps a hostile file from allocating
		// gigabytes.
		z, err := zstd.NewReader(src, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			return nil, fmt.Errorf("itch: zstd: %w", err)
		}
		end := func() error { z.Close(); return nil }
		return &Reader{src: bufio.NewReaderSize(z, 1<<16), close: end}, nil
	}
	return &Reader{src: src, close: func() error { return nil }}, nil
}

// isZstd reports whether b begins with a frame of RFC 8878, section 3.1: a Zstandard frame, or the
// skippable frame that parallel compressors write first.
func isZstd(b []byte) bool {
	if len(b) < 4 {
		return false
	}
	magic := binary.LittleEndian.Uint32(b)
	return magic == 0xfd2fb528 || magic&^0xf == 0x184d2a50
}

// Next returns the next message, valid until the following call. At the end it returns io.EOF, for
// a damaged file a *FrameError. A known type with a wrong length counts as damage.
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

// truncated converts the end of the file into ErrTruncated, and returns errors of the disk or the
// compression unchanged.
func truncated(err error, got, want int) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("%w: %d of %d bytes", ErrTruncated, got, want)
	}
	return err
}

// Close ends the decompression. It does not close the reader passed to NewReader.
func (r *Reader) Close() error {
	if r.err == nil {
		r.err = errors.New("itch: reader is closed")
	}
	return r.close()
}

// AppendFrame appends msg, of at most MaxMessage bytes, in BinaryFILE framing.
func AppendFrame(b, msg []byte) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(msg))), msg...)
}
