package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/fanfaremq/fanfare/examples/marketdata/feed"
	"github.com/fanfaremq/fanfare/examples/marketdata/itch"
)

const (
	// maxMade is how many messages a run without a limit generates before it
	// publishes the first: to generate one costs more than to publish it.
	maxMade = 10_000_000
	// meanFrame is about what one takes in memory, in bytes.
	meanFrame = 32
)

// source is the feed of a run, one message at a time: an ITCH file, or the
// generator's feed as if it were one.
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
}

func openSource(cfg config) (*source, error) {
	s := &source{name: cmp.Or(cfg.File, "generated feed"), left: math.MaxUint64}
	open := openGenerated
	if cfg.File != "" {
		open = openFile
		s.left = cmp.Or(cfg.Messages, s.left)
		if cfg.Rate > 0 {
			s.every = time.Duration(float64(time.Second) / cfg.Rate)
		}
	}
	file, err := open(cfg)
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

func openFile(cfg config) (io.ReadCloser, error) {
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

func openGenerated(cfg config) (io.ReadCloser, error) {
	g, err := feed.New(cfg.feed())
	if err != nil || cfg.Rate > 0 || cfg.Messages > maxMade {
		return io.NopCloser(g), err
	}
	var made bytes.Buffer
	made.Grow(int(g.Total()) * meanFrame)
	_, err = made.ReadFrom(g)
	return io.NopCloser(&made), err
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
