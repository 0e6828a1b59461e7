package cli

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// source provides pub's messages: from standard input, once, or from a checked file, several times.
type source struct {
	name    string // for errors
	file    *os.File
	frames  *frameReader
	end     func() // ends the decompression of a pass
	repeat  int    // remaining passes, including this one
	perPass int64  // messages; 0: none, or unknown
	total   int64  // messages of all passes; 0: none, or unknown
}

// fileSource opens a file, compressed or not, and reads it completely to check that it can be split
// into messages. instead is the advice for a file that can be read only once.
func fileSource(name string, f framing, repeat int, instead string) (*source, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, pathError(err)
	}
	switch {
	case info.IsDir():
		return nil, fmt.Errorf("%s is a directory: use a file", name)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file and cannot be checked before sending: %s", name, instead)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, pathError(err)
	}
	s := &source{name: name, file: file, frames: newFrameReader(nil, f), repeat: repeat, end: func() {}}
	if err := s.rewind(); err != nil {
		s.close()
		return nil, err
	}
	for {
		msgs, err := s.frames.batch()
		s.perPass += int64(len(msgs))
		if err == io.EOF {
			break
		}
		if err != nil {
			s.close()
			return nil, s.error(err)
		}
	}
	s.total = s.perPass * int64(repeat)
	if err := s.rewind(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// pathError removes the name of the system call.
func pathError(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return fmt.Errorf("%s: %w", p.Path, p.Err)
	}
	return err
}

func (s *source) error(err error) error {
	if s.file != nil && s.frames.framing != framingWhole && !errors.As(err, new(*os.PathError)) &&
		!errors.As(err, new(*frameError)) {
		return fmt.Errorf("%s cannot be decompressed after the first %s, at byte %d of its content: %w",
			s.name, count(s.frames.number, "message"), s.frames.offset+int64(s.frames.end-s.frames.start), err)
	}
	return fmt.Errorf("%s: %w", s.name, pathError(err))
}

func (s *source) rewind() error {
	s.end()
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return s.error(err)
	}
	plain, end, err := decompressed(s.file, s.frames.framing)
	if err != nil {
		return s.error(err)
	}
	s.end = end
	s.frames.reset(plain)
	return nil
}

// batch returns the next messages, valid until the next call; io.EOF at the end.
func (s *source) batch() ([][]byte, error) {
	for {
		msgs, err := s.frames.batch()
		switch {
		case err == nil:
			return msgs, nil
		case err != io.EOF:
			return nil, s.error(err)
		}
		if s.repeat--; s.repeat <= 0 || s.perPass == 0 {
			return nil, io.EOF
		}
		if err := s.rewind(); err != nil {
			return nil, err
		}
	}
}

func (s *source) close() {
	if s.file != nil {
		s.end()
		s.file.Close()
	}
}

// maxZstdWindow bounds the memory that a file can claim, in bytes.
const maxZstdWindow = 128 << 20

// gzipMagic are the first bytes of a gzip file, including the compression method, of which only one
// exists. Without it the bytes could also be the length of a message in framing itch.
var gzipMagic = []byte{0x1f, 0x8b, 8}

// decompressed returns the content of r, decompressing gzip (RFC 1952, section 2.3.1) and Zstandard
// (RFC 8878, section 3.1.1), recognized by their first bytes. With framingWhole the data is not
// decompressed. It returns io.ErrUnexpectedEOF if r ends within a header.
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

type framing string

const (
	// framingLines: a message is a line without its newline. The last line may have none.
	framingLines framing = "lines"
	// framingITCH: each message follows its length, a 2-byte big-endian number (Nasdaq BinaryFILE).
	// Length zero is an empty message.
	framingITCH framing = "itch"
	// framingWhole: the whole input is one message, up to maxMessage bytes.
	framingWhole framing = "whole"
)

const (
	maxMessage = 16 << 20 // the largest message of package pubsub, in bytes

	firstBuffer = 256 << 10
	maxBatch    = 1024 // messages
)

type frameError struct {
	what   string // "message", "line"
	number int64  // counted from 1
	offset int64  // of its first byte
	reason string
}

func (e *frameError) Error() string {
	return fmt.Sprintf("%s %d, at byte %d, %s", e.what, e.number, e.offset, e.reason)
}

type frameReader struct {
	r       io.Reader
	framing framing
	buf     []byte
	start   int // of the bytes not yet split
	end     int // of the bytes read
	scanned int // lines: no newline between start and here
	eof     bool
	err     error // sticky
	number  int64 // messages returned
	offset  int64 // of buf[start] in the stream
	msgs    [][]byte
}

func newFrameReader(r io.Reader, f framing) *frameReader {
	return &frameReader{r: r, framing: f, buf: make([]byte, firstBuffer)}
}

func (f *frameReader) reset(r io.Reader) {
	*f = frameReader{r: r, framing: f.framing, buf: f.buf, msgs: f.msgs}
}

// batch returns the next messages, at least one. It reads only if no complete message is buffered,
// and does not wait for more than one. They are valid until the next call. At the end it returns
// io.EOF; a *frameError describes a malformed stream; other errors are the reader's.
func (f *frameReader) batch() ([][]byte, error) {
	if f.err != nil {
		return nil, f.err
	}
	f.msgs = f.msgs[:0]
	for {
		for len(f.msgs) < maxBatch && f.cut() {
		}
		if len(f.msgs) > 0 {
			return f.msgs, nil
		}
		if f.eof {
			f.err = f.rest()
			if len(f.msgs) > 0 {
				return f.msgs, nil
			}
			return nil, f.err
		}
		if f.err = f.fill(); f.err != nil {
			return nil, f.err
		}
	}
}

func (f *frameReader) cut() bool {
	b := f.buf[f.start:f.end]
	switch f.framing {
	case framingLines:
		i := bytes.IndexByte(b[f.scanned:], '\n')
		if i < 0 {
			f.scanned = len(b)
			return false
		}
		i += f.scanned
		f.scanned = 0
		f.setMessage(b[:i], i+1)
		return true
	case framingITCH:
		if len(b) < 2 {
			return false
		}
		n := 2 + int(binary.BigEndian.Uint16(b))
		if len(b) < n {
			return false
		}
		f.setMessage(b[2:n], n)
		return true
	}
	return false
}

func (f *frameReader) setMessage(msg []byte, used int) {
	f.msgs = append(f.msgs, msg)
	f.start += used
	f.offset += int64(used)
	f.number++
}

// fill reads once, and makes room first if there is none.
func (f *frameReader) fill() error {
	// a line may end with a newline after the largest message; one more byte shows that the message is too long
	const limit = maxMessage + 1
	if f.start > 0 {
		copy(f.buf, f.buf[f.start:f.end])
		f.end -= f.start
		f.start = 0
	}
	if f.end == limit {
		return f.errorf("is longer than %d bytes, the maximum size of a message", maxMessage)
	}
	if f.end == len(f.buf) {
		bigger := make([]byte, min(2*len(f.buf), limit))
		copy(bigger, f.buf)
		f.buf = bigger
	}
	n, err := f.r.Read(f.buf[f.end:])
	f.end += n
	if err == io.EOF {
		f.eof = true
		return nil
	}
	if n > 0 {
		return nil // the error is returned again when these bytes are used up
	}
	return err
}

func (f *frameReader) rest() error {
	b := f.buf[f.start:f.end]
	switch {
	case len(b) == 0 && f.framing != framingWhole:
	case f.framing == framingITCH && len(b) < 2:
		return f.errorf("is truncated: the input ends inside its length")
	case f.framing == framingITCH:
		return f.errorf("is truncated: %d bytes expected, %d present", binary.BigEndian.Uint16(b), len(b)-2)
	case len(b) > maxMessage:
		return f.errorf("is longer than %d bytes, the maximum size of a message", maxMessage)
	default:
		f.setMessage(b, len(b))
	}
	return io.EOF
}

func (f *frameReader) errorf(format string, args ...any) error {
	what := "message"
	switch f.framing {
	case framingLines:
		what = "line"
	case framingWhole:
		return fmt.Errorf("the input "+format, args...)
	}
	return &frameError{what, f.number + 1, f.offset, fmt.Sprintf(format, args...)}
}

type frameWriter struct {
	w       *bufio.Writer
	framing framing
}

func newFrameWriter(w io.Writer, f framing) *frameWriter {
	return &frameWriter{bufio.NewWriterSize(w, firstBuffer), f}
}

// write writes one message. An error may be returned by a later write or flush.
func (f *frameWriter) write(msg []byte) error {
	switch f.framing {
	case framingLines:
		if _, err := f.w.Write(msg); err != nil {
			return err
		}
		return f.w.WriteByte('\n')
	case framingITCH:
		if len(msg) > 1<<16-1 {
			return fmt.Errorf("a message of %d bytes is too long for framing itch (limit 65535): use -framing whole or lines", len(msg))
		}
		if _, err := f.w.Write(binary.BigEndian.AppendUint16(f.w.AvailableBuffer(), uint16(len(msg)))); err != nil {
			return err
		}
	}
	_, err := f.w.Write(msg)
	return err
}

func (f *frameWriter) flush() error { return f.w.Flush() }
