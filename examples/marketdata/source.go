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
	maxMade  = 4_000_000 // messages that a source holds in memory
	meanMade = 36        // bytes of one, about
	madeHead = 3         // of them before the ITCH message: its topic's index, 2, and its length
)

// source is the feed of a run, one message at a time: an ITCH file, or the generator's feed as if it were one.
type source struct {
	name  string
	file  io.Closer
	r     *itch.Reader
	left  uint64        // messages still to be read
	raw   []byte        // the latest message
	msg   itch.Message  // and what it says
	begin time.Duration // timestamp of the first that is published
	every time.Duration // between two that are published, 0: as their timestamps say
	count int64         // of those that are published
	made  []byte        // that are read in advance
	ahead bool          // the latest was: it is in the books, and msg is another
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
	// Reading a directory, a terminal or a pipe twice would not do.
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, cmp.Or(err, fmt.Errorf("%s is not a regular file", cfg.File))
	}
	return f, nil
}

// advance reads some messages in advance and brings them into the books: both cost
// more than to publish them, and a run without a limit shows what that takes.
func (s *source) advance(p *plan, books *book.Set, most uint64) error {
	made := make([]byte, 0, min(p.Total, most)*meanMade)
	for range most {
		topic, _, err := s.next(p)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		books.Apply(&s.msg)
		made = binary.BigEndian.AppendUint16(made, uint16(topic))
		made = append(append(made, byte(len(s.raw))), s.raw...) // itch.MaxMessage fits
	}
	s.made = made
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

// next reads the next message that is to be published. It returns its topic's
// index in the plan, and when it is due after the first one.
func (s *source) next(p *plan) (topic int, due time.Duration, err error) {
	if s.ahead = len(s.made) > 0; s.ahead {
		n := madeHead + int(s.made[madeHead-1])
		topic, s.raw, s.made = int(binary.BigEndian.Uint16(s.made)), s.made[madeHead:n], s.made[n:]
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
