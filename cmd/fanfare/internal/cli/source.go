package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// source is where pub's messages come from: standard input, once, or a file
// that has been checked, several times.
type source struct {
	name    string // for errors
	file    *os.File
	frames  *frameReader
	repeat  int   // passes still to come, this one included
	perPass int64 // messages; 0: none, or not known
	total   int64 // messages of all passes; 0: none, or not known
}

// fileSource opens a file and reads all of it, to be sure that it can be read
// and cut into messages. instead is what to do where it can be read only once.
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
	s := &source{name: name, file: file, frames: newFrameReader(file, f), repeat: repeat}
	for {
		msgs, err := s.frames.batch()
		s.perPass += int64(len(msgs))
		if err == io.EOF {
			break
		}
		if err != nil {
			file.Close()
			return nil, s.error(err)
		}
	}
	s.total = s.perPass * int64(repeat)
	if err := s.rewind(); err != nil {
		file.Close()
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

func (s *source) error(err error) error { return fmt.Errorf("%s: %w", s.name, pathError(err)) }

func (s *source) rewind() error {
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return s.error(err)
	}
	s.frames.reset(s.file)
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
		s.file.Close()
	}
}

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
