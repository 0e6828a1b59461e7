// Package feed generates the feed of an exchange: messages of Nasdaq
// TotalView-ITCH 5.0 for a whole, short day. A few symbols make most of the
// messages, messages come in bursts, prices walk at random, and orders are
// added, replaced, cancelled, deleted and executed in about the proportions
// of the real feed. Every message about an order refers to one that the book
// holds, and no book is ever crossed.
//
// The same Config gives the same bytes (on another processor architecture,
// floating point may round a timestamp by a nanosecond).
//
// The day in order: a system event 'O' (start of messages), the stock
// directory, a system event 'Q' (start of market hours), the book messages, a
// system event 'M' (end of market hours), a system event 'C' (end of
// messages).
package feed

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fanfaremq/fanfare/examples/marketdata/itch"
)

// Limits of a Config.
const (
	// MaxSymbols bounds the memory for live orders: about 5 KiB a symbol.
	MaxSymbols = 20000
	// maxLive is the number of orders of one side of one book at which the
	// generator only takes orders away.
	maxLive = 128
	// minLive is the number of orders of a side below which it only adds.
	minLive = 4
)

// Config says what to generate. The zero value of each field means its
// default.
type Config struct {
	Symbols  int     // number of symbols, 1 … MaxSymbols; default 50
	Messages uint64  // number of book messages; default 500 000
	Rate     float64 // mean of book messages per second of feed time; default 60 000
	Seed     uint64  // any value, 0 too, is a seed
}

func (c Config) withDefaults() (Config, error) {
	if c.Symbols == 0 {
		c.Symbols = 50
	}
	if c.Messages == 0 {
		c.Messages = 500_000
	}
	if c.Rate == 0 {
		c.Rate = 60_000
	}
	if c.Symbols < 0 || c.Symbols > MaxSymbols {
		return c, fmt.Errorf("feed: %d symbols, want 1 to %d", c.Symbols, MaxSymbols)
	}
	if !(c.Rate > 0 && c.Rate <= 1e9) {
		return c, fmt.Errorf("feed: %v messages a second, want more than 0 and at most 1e9", c.Rate)
	}
	return c, nil
}

// Message is one message of the feed.
type Message struct {
	Bytes  []byte        // the ITCH message, valid until the next call of Next
	Locate uint16        // stock locate; 0 for system events, which concern all symbols
	At     time.Duration // since the first message of the feed
}

// Generator makes the messages of one day. It is for one goroutine.
type Generator struct {
	cfg     Config
	rnd     *rand.Rand
	zipf    *rand.Zipf
	bursts  bursts
	stocks  []stock // by stock locate - 1
	buf     []byte
	step    uint64 // index of the next message
	now     time.Duration
	last    int    // index of the stock of the latest book message
	nextRef uint64 // next order reference
	match   uint64 // next match number
}

// startOfDay is the ITCH timestamp of the first message: 9:30 in New York.
const startOfDay = 9*time.Hour + 30*time.Minute

// New returns a generator at the start of its day.
func New(cfg Config) (*Generator, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	rnd := rand.New(rand.NewPCG(cfg.Seed, 0x66616e66617265))
	g := &Generator{
		cfg:     cfg,
		rnd:     rnd,
		bursts:  newBursts(cfg.Rate),
		stocks:  make([]stock, cfg.Symbols),
		buf:     make([]byte, 0, itch.MaxMessage),
		nextRef: 1000,
		match:   50_000,
	}
	// Exponent and offset give the busiest of 50 symbols about a sixth of the
	// feed and the ten busiest two thirds.
	g.zipf = rand.NewZipf(rnd, 1.2, 2, uint64(cfg.Symbols-1))
	for i := range g.stocks {
		g.stocks[i] = newStock(i, rnd)
	}
	return g, nil
}

// Symbols returns the number of symbols; their stock locates are 1 to it.
func (g *Generator) Symbols() int { return len(g.stocks) }

// Symbol returns the symbol of a stock locate, "" for those without one.
func (g *Generator) Symbol(locate uint16) string {
	if locate == 0 || int(locate) > len(g.stocks) {
		return ""
	}
	return g.stocks[locate-1].name
}

// Total is the number of messages of the whole day: the book messages, one
// directory message a symbol and four system events.
func (g *Generator) Total() uint64 {
	return g.cfg.Messages + uint64(g.cfg.Symbols) + 4
}

// Next returns the next message, and false after the last. It allocates
// nothing.
func (g *Generator) Next() (Message, bool) {
	symbols, messages := uint64(g.cfg.Symbols), g.cfg.Messages
	i := g.step
	g.step++
	switch {
	case i == 0:
		return g.event(itch.EventStartOfMessages), true
	case i <= symbols:
		return g.directory(int(i - 1)), true
	case i == symbols+1:
		return g.event(itch.EventStartOfMarketHours), true
	case i <= symbols+1+messages:
		g.now += g.bursts.next(g.rnd)
		return g.order(), true
	case i == symbols+messages+2:
		return g.event(itch.EventEndOfMarketHours), true
	case i == symbols+messages+3:
		return g.event(itch.EventEndOfMessages), true
	}
	g.step-- // stay at the end
	return Message{}, false
}

// header is the header of a message about the stock with an index.
func (g *Generator) header(index int) itch.Header {
	return itch.Header{Locate: uint16(index + 1), Timestamp: startOfDay + g.now}
}

func (g *Generator) event(code byte) Message {
	m := itch.SystemEvent{Header: itch.Header{Timestamp: startOfDay + g.now}, Event: code}
	g.buf = m.Append(g.buf[:0])
	return Message{Bytes: g.buf, At: g.now}
}

func (g *Generator) directory(index int) Message {
	m := itch.StockDirectory{
		Header:             g.header(index),
		Stock:              g.stocks[index].symbol,
		MarketCategory:     'Q', // Nasdaq Global Select Market
		FinancialStatus:    'N',
		RoundLotSize:       100,
		RoundLotsOnly:      'N',
		Classification:     'C', // common stock
		SubType:            [2]byte{'Z', ' '},
		Authenticity:       'T', // test: nobody should trade on this
		ShortSaleThreshold: 'N',
		IPO:                'N',
		LULDTier:           '1',
		ETP:                'N',
		Inverse:            'N',
	}
	g.buf = m.Append(g.buf[:0])
	return g.message(index)
}

// message wraps what is in g.buf.
func (g *Generator) message(index int) Message {
	return Message{Bytes: g.buf, Locate: uint16(index + 1), At: g.now}
}
