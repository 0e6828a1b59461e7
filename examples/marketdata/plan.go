package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/fanfaremq/fanfare/examples/marketdata/feed"
	"github.com/fanfaremq/fanfare/examples/marketdata/itch"
)

// topicPrefix is what all topics begin with: market data of the Nasdaq stock
// market, by its market identifier code.
const topicPrefix = "md.xnas."

// marketTopic carries what concerns no single symbol. Symbols are in upper
// case, so none can be called this.
const marketTopic = topicPrefix + "market"

// topicOf is the topic of a symbol. A dot separates tokens of a topic, so that
// the class of a share (BRK.B) becomes a dash (BRK-B).
func topicOf(symbol string) string {
	return topicPrefix + strings.Map(func(r rune) rune {
		switch {
		case r == '.':
			return '-'
		case r <= ' ' || r == '*' || r == '>' || r > '~':
			return '_'
		}
		return r
	}, symbol)
}

// plan is what will be published: it is made before anything is sent, so that
// subscribers can subscribe and a damaged file is found out in time.
type plan struct {
	Topics []string
	Locate map[uint16]int // stock locate → index in Topics; others are left out
	Total  uint64         // messages of those topics
	// Unnamed is the number of topics whose symbol no message of a file names:
	// they are called by their stock locate.
	Unnamed int

	index map[string]int // topic → index in Topics, while the plan is made
}

func newPlan() *plan { return &plan{Locate: map[uint16]int{}, index: map[string]int{}} }

// add adds a stock locate with its topic. Locates that share a symbol (one
// file can hold several days) share the topic.
func (p *plan) add(locate uint16, topic string) {
	at, ok := p.index[topic]
	if !ok {
		at = len(p.Topics)
		p.Topics = append(p.Topics, topic)
		p.index[topic] = at
	}
	p.Locate[locate] = at
}

// source is a feed to be published, one message at a time.
type source interface {
	// next returns the next message, valid until the following call, its
	// topic's index in the plan, and when it is due after the first one. At
	// the end the error is io.EOF.
	next() (msg []byte, topic int, due time.Duration, err error)
	close() error
}

// makePlan looks at the whole feed of a run.
func makePlan(cfg config) (*plan, error) {
	if cfg.File != "" {
		return planFile(cfg)
	}
	g, err := feed.New(cfg.feed())
	if err != nil {
		return nil, err
	}
	p := newPlan()
	p.Total = g.Total()
	for locate := range uint16(g.Symbols()) {
		p.add(locate+1, topicOf(g.Symbol(locate+1)))
	}
	p.add(0, marketTopic)
	return p, nil
}

// openSource opens the feed of a run for publishing.
func openSource(cfg config, p *plan) (source, error) {
	if cfg.File != "" {
		return openFile(cfg, p)
	}
	g, err := feed.New(cfg.feed())
	if err != nil {
		return nil, err
	}
	return &generated{g, p}, nil
}

// generated is a feed from the generator: due when its timestamps say.
type generated struct {
	g    *feed.Generator
	plan *plan
}

func (s *generated) next() ([]byte, int, time.Duration, error) {
	m, ok := s.g.Next()
	if !ok {
		return nil, 0, 0, io.EOF
	}
	return m.Bytes, s.plan.Locate[m.Locate], m.At, nil
}

func (s *generated) close() error { return nil }

// itchFile is an ITCH file as a source: its messages are due at equal
// distances, or at once where no rate is set.
type itchFile struct {
	file  *os.File
	r     *itch.Reader
	left  uint64       // messages still to be read, over all topics
	m     itch.Message // the latest
	plan  *plan        // nil while it is made
	every time.Duration
	sent  int64
}

func openFile(cfg config, p *plan) (*itchFile, error) {
	f, err := os.Open(cfg.File)
	if err != nil {
		return nil, err
	}
	// Reading a directory, a terminal or a pipe twice would not do.
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, cmp.Or(err, fmt.Errorf("%s is not a regular file", cfg.File))
	}
	r, err := itch.NewReader(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", cfg.File, err)
	}
	s := &itchFile{file: f, r: r, left: cmp.Or(cfg.Messages, 1<<64-1), plan: p}
	if cfg.Rate > 0 {
		s.every = time.Duration(float64(time.Second) / cfg.Rate)
	}
	return s, nil
}

// read returns the next message, and reads it into f.m.
func (f *itchFile) read() ([]byte, error) {
	if f.left == 0 {
		return nil, io.EOF
	}
	f.left--
	msg, err := f.r.Next()
	if err == nil {
		err = f.m.Parse(msg)
	}
	if err != nil && err != io.EOF {
		err = fmt.Errorf("%s: %w", f.file.Name(), err)
	}
	return msg, err
}

func (f *itchFile) next() ([]byte, int, time.Duration, error) {
	for {
		msg, err := f.read()
		if err != nil {
			return nil, 0, 0, err
		}
		if topic, ok := f.plan.Locate[f.m.Locate]; ok { // else not one of the busiest symbols
			f.sent++
			return msg, topic, time.Duration(f.sent-1) * f.every, nil
		}
	}
}

func (f *itchFile) close() error { return errors.Join(f.r.Close(), f.file.Close()) }

// planFile reads a file from end to end: it checks it, learns which symbol a
// stock locate stands for, even if the first message that names it comes late,
// and which symbols are the busiest.
func planFile(cfg config) (*plan, error) {
	f, err := openFile(cfg, nil)
	if err != nil {
		return nil, err
	}
	defer f.close()
	type stock struct {
		locate   uint16
		symbol   string
		messages uint64
	}
	stocks := map[uint16]*stock{}
	for {
		_, err := f.read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		s := stocks[f.m.Locate]
		if s == nil {
			s = &stock{locate: f.m.Locate}
			stocks[s.locate] = s
		}
		s.messages++
		if s.symbol == "" && f.m.Stock != (itch.Symbol{}) && s.locate != 0 {
			s.symbol = f.m.Stock.String()
		}
	}
	if len(stocks) == 0 {
		return nil, fmt.Errorf("%s: no messages", cfg.File)
	}

	busiest := make([]*stock, 0, len(stocks))
	for _, s := range stocks {
		busiest = append(busiest, s)
	}
	slices.SortFunc(busiest, func(a, b *stock) int {
		return cmp.Or(cmp.Compare(b.messages, a.messages), cmp.Compare(a.locate, b.locate))
	})
	p := newPlan()
	chosen := 0
	for _, s := range busiest {
		switch {
		case s.locate == 0:
			p.add(0, marketTopic)
		case cfg.Symbols > 0 && chosen == cfg.Symbols:
			continue
		default:
			chosen++
			if s.symbol == "" {
				p.Unnamed++
				p.add(s.locate, fmt.Sprintf("%slocate-%d", topicPrefix, s.locate))
			} else {
				p.add(s.locate, topicOf(s.symbol))
			}
		}
		p.Total += s.messages
	}
	return p, nil
}
