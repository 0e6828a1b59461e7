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

// source is where pub's messages come from: standard input, once, or a file that has been checked, several times.
type source struct {
	name    string // for errors
	file    *os.File
	frames  *frameReader
	end     func() // ends a pass's decompression
	repeat  int    // passes still to come, this one included
	perPass int64  // messages; 0: none, or not known
	total   int64  // messages of all passes; 0: none, or not known
}

// fileSource opens a file, compressed or not, and reads all of it, to be sure that it can
// be read and cut into messages. instead is what to do where it can be read only once.
func fileSource(name string, f framing, repeat int, instead string) (*source, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, pathError(err)
	}
	switch {
	case info.IsDir():
		return nil, fmt.Errorf("%s is a directory: name a file", name)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file, and cannot be checked before it is used: %s", name, instead)
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

// pathError leaves out the name of the system call.
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
		return fmt.Errorf("%s cannot be decompressed behind its first %s, at byte %d of what it holds: %w",
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

// gzipMagic are the first bytes of a file of gzip, with the only method there is. Without the method they are the
// length of a message, too, in the framing itch.
var gzipMagic = []byte{0x1f, 0x8b, 8}

// decompressed is what r holds, without gzip (RFC 1952, section 2.3.1) or Zstandard (RFC 8878,
// section 3.1.1), recognized by their first bytes. A file that is one message is left as it is. It returns
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

type framing string

const (
	// framingLines: a message is a line, without its newline, which the last line may lack.
	framingLines framing = "lines"
	// framingITCH: before each message its length as a 2-byte big-endian
	// number (Nasdaq BinaryFILE). A length of zero is an empty message.
	framingITCH framing = "itch"
	// framingWhole: all is one message, up to maxMessage bytes.
	framingWhole framing = "whole"
)

const (
	maxMessage = 16 << 20 // the longest message of package pubsub, in bytes

	firstBuffer = 256 << 10
	maxBatch    = 1024 // messages
)

type frameError struct {
	what   string // "message", "line"
	number int64  // of it, from 1
	offset int64  // in bytes, where it begins
	reason string
}

func (e *frameError) Error() string {
	return fmt.Sprintf("%s %d, at byte %d, %s", e.what, e.number, e.offset, e.reason)
}

type frameReader struct {
	r       io.Reader
	framing framing
	buf     []byte
	start   int // of what is not yet cut
	end     int // of what was read
	scanned int // lines: up to there is no newline behind start
	eof     bool
	err     error // sticky
	number  int64 // messages cut
	offset  int64 // of buf[start] in the stream
	msgs    [][]byte
}

func newFrameReader(r io.Reader, f framing) *frameReader {
	return &frameReader{r: r, framing: f, buf: make([]byte, firstBuffer)}
}

func (f *frameReader) reset(r io.Reader) {
	*f = frameReader{r: r, framing: f.framing, buf: f.buf, msgs: f.msgs}
}

// batch returns the next messages, at least one: it reads only if no message is there, and then does not wait for
// more than one. They are valid until the next call. At the end it returns io.EOF; a *frameError says what is wrong
// with the stream; other errors are the reader's.
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
		f.take(b[:i], i+1)
		return true
	case framingITCH:
		if len(b) < 2 {
			return false
		}
		n := 2 + int(binary.BigEndian.Uint16(b))
		if len(b) < n {
			return false
		}
		f.take(b[2:n], n)
		return true
	}
	return false
}

func (f *frameReader) take(msg []byte, used int) {
	f.msgs = append(f.msgs, msg)
	f.start += used
	f.offset += int64(used)
	f.number++
}

// fill reads once, making room before if there is none.
func (f *frameReader) fill() error {
	// A line may have a newline behind its last byte, and one byte too many shows that the rest is too long.
	const most = maxMessage + 1
	if f.start > 0 {
		copy(f.buf, f.buf[f.start:f.end])
		f.end -= f.start
		f.start = 0
	}
	if f.end == most {
		return f.errorf("is longer than %d bytes, the most that a message can have", maxMessage)
	}
	if f.end == len(f.buf) {
		bigger := make([]byte, min(2*len(f.buf), most))
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
		return nil // an error comes again, when these bytes are used up
	}
	return err
}

func (f *frameReader) rest() error {
	b := f.buf[f.start:f.end]
	switch {
	case len(b) == 0 && f.framing != framingWhole:
	case f.framing == framingITCH && len(b) < 2:
		return f.errorf("is cut off: the input ends inside its length")
	case f.framing == framingITCH:
		return f.errorf("is cut off: it should have %d bytes, and %d are there", binary.BigEndian.Uint16(b), len(b)-2)
	case len(b) > maxMessage:
		return f.errorf("is longer than %d bytes, the most that a message can have", maxMessage)
	default:
		f.take(b, len(b))
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

// write writes one message. Errors may come with a later write or flush.
func (f *frameWriter) write(msg []byte) error {
	switch f.framing {
	case framingLines:
		if _, err := f.w.Write(msg); err != nil {
			return err
		}
		return f.w.WriteByte('\n')
	case framingITCH:
		if len(msg) > 1<<16-1 {
			return fmt.Errorf("a message of %d bytes does not fit the framing itch, which ends at 65535: use -framing whole or lines", len(msg))
		}
		if _, err := f.w.Write(binary.BigEndian.AppendUint16(f.w.AvailableBuffer(), uint16(len(msg)))); err != nil {
			return err
		}
	}
	_, err := f.w.Write(msg)
	return err
}

func (f *frameWriter) flush() error { return f.w.Flush() }
