package main

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/fanfaremq/fanfare/examples/marketdata/book"
	"github.com/fanfaremq/fanfare/examples/marketdata/feed"
	"github.com/fanfaremq/fanfare/examples/marketdata/itch"
)

const (
	maxPrepared    = 4_000_000 // messages that a source prepares in memory
	meanPrepared   = 36        // average bytes of a message
	preparedHeader = 3         // bytes before the ITCH message: the topic's index, 2, and the length
)

// source is the feed of a run, one message at a time: an ITCH file, or the generated feed in the same form.
type source struct {
	name     string
	file     io.Closer
	r        *itch.Reader
	left     uint64        // messages still to be read
	raw      []byte        // the latest message
	msg      itch.Message  // raw, parsed
	begin    time.Duration // timestamp of the first published message
	every    time.Duration // interval between published messages, 0: according to their timestamps
	count    int64         // number of published messages
	prepared []byte        // messages prepared in advance
	ahead    bool          // the latest message was prepared: it is already in the books, and msg is another one
}

func openSource(cfg config) (*source, error) {
	s := &source{name: cmp.Or(cfg.File, "generated feed"), left: math.MaxUint64}
	if cfg.File != "" {
		s.left = cmp.Or(cfg.Messages, s.left)
		if cfg.Rate > 0 {
			s.every = time.Duration(float64(time.Second) / cfg.Rate)
		}
	}
	file, err := openFeed(cfg)
	if err != nil {
		return nil, err
	}
	if s.r, err = itch.NewReader(file); err != nil {
		file.Close()
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	s.file = file
	return s, nil
}

func openFeed(cfg config) (io.ReadCloser, error) {
	if cfg.File == "" {
		g, err := feed.New(cfg.feed())
		return io.NopCloser(g), err
	}
	f, err := os.Open(cfg.File)
	if err != nil {
		return nil, err
	}
	// The file is read twice, which a directory, a terminal or a pipe does not allow.
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, cmp.Or(err, fmt.Errorf("%s is not a regular file", cfg.File))
	}
	return f, nil
}

// advance prepares some messages and applies them to the books in advance: both cost more than
// publishing, and a run without a rate limit measures publishing.
func (s *source) advance(p *plan, books *book.Set, limit uint64) error {
	prepared := make([]byte, 0, min(p.Total, limit)*meanPrepared)
	for range limit {
		topic, _, err := s.next(p)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		books.Apply(&s.msg)
		prepared = binary.BigEndian.AppendUint16(prepared, uint16(topic))
		prepared = append(append(prepared, byte(len(s.raw))), s.raw...) // itch.MaxMessage fits
	}
	s.prepared = prepared
	return nil
}

// read reads the next message into s.raw and s.msg. At the end it returns io.EOF.
func (s *source) read() (err error) {
	if s.left == 0 {
		return io.EOF
	}
	s.left--
	if s.raw, err = s.r.Next(); err == nil {
		err = s.msg.Parse(s.raw)
	}
	if err != nil && err != io.EOF {
		err = fmt.Errorf("%s: %w", s.name, err)
	}
	return err
}

// next reads the next message to be published. It returns its topic's index in the plan, and the
// time after the first message when it is due.
func (s *source) next(p *plan) (topic int, due time.Duration, err error) {
	if s.ahead = len(s.prepared) > 0; s.ahead {
		n := preparedHeader + int(s.prepared[preparedHeader-1])
		topic, s.raw, s.prepared = int(binary.BigEndian.Uint16(s.prepared)), s.prepared[preparedHeader:n], s.prepared[n:]
		return topic, 0, nil
	}
	for {
		if err := s.read(); err != nil {
			return 0, 0, err
		}
		topic, ok := p.Locate[s.msg.Locate]
		if !ok {
			continue // not one of the busiest symbols
		}
		if s.count == 0 {
			s.begin = s.msg.Timestamp
		}
		due := s.msg.Timestamp - s.begin
		if s.every > 0 {
			due = time.Duration(s.count) * s.every
		}
		s.count++
		return topic, due, nil
	}
}

func (s *source) close() error { return errors.Join(s.r.Close(), s.file.Close()) }
