// Package feed generates the feed of an exchange: messages of Nasdaq TotalView-ITCH 5.0 for a complete, short day. A
// few cancelled, deleted and executed in about the proportions of the real feed. Every message about an order refers
// to one that the book holds, and no book is ever crossed.
//
// The same Config gives the same bytes (on another processor architecture,
// floating point may round a timestamp by a nanosecond).
//
// The day in order: a system event 'O' (start of messages), the stock directory, a system event 'Q' (start of market
// hours), the book messages, a system event 'M' (end of market hours), a system event 'C' (end of messages).
package feed

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fanfaremq/fanfare/examples/marketdata/itch"
)

// Limits of a Config.
const (
	// MaxSymbols bounds the memory for live orders: about 5 KiB a symbol.
	MaxSymbols = 20000
	// maxLive is the number of orders on a side of a book at which the generator only removes orders.
	maxLive = 128
	// minLive is the number of orders on a side below which it only adds.
	minLive = 4
)

// Config configures a Generator.
type Config struct {
	Symbols  int     // number of symbols, 1 … MaxSymbols
	Messages uint64  // number of book messages
	Rate     float64 // mean of book messages per second of feed time, at most 1e9
	Seed     uint64  // any value, including 0
}

// Generator makes the messages of one day. It is not safe for concurrent use.
type Generator struct {
	cfg     Config
	rnd     *rand.Rand
	zipf    *rand.Zipf
	bursts  bursts
	stocks  []stock      // by stock locate - 1
	msg     itch.Message // the latest message
	step    uint64       // index of the next message
	now     time.Duration
	last    int          // index of the stock of the latest message about a stock
	nextRef uint64       // next order reference
	match   uint64       // next match number
	frame   bytes.Buffer // the part of the latest message that Read has not returned yet
}

// startOfDay is the ITCH timestamp of the first message: 9:30 in New York.
const startOfDay = 9*time.Hour + 30*time.Minute

// New returns a generator at the start of its day.
func New(cfg Config) (*Generator, error) {
	if cfg.Symbols < 1 || cfg.Symbols > MaxSymbols {
		return nil, fmt.Errorf("feed: %d symbols, want 1 to %d", cfg.Symbols, MaxSymbols)
	}
	if !(cfg.Rate > 0 && cfg.Rate <= 1e9) {
		return nil, fmt.Errorf("feed: %v messages a second, want more than 0 and at most 1e9", cfg.Rate)
	}
	rnd := rand.New(rand.NewPCG(cfg.Seed, 0x66616e66617265))
	g := &Generator{
		cfg:     cfg,
		rnd:     rnd,
		bursts:  newBursts(cfg.Rate),
		stocks:  make([]stock, cfg.Symbols),
		nextRef: 1000,
		match:   50_000,
	}
	// With this exponent and offset the busiest of 50 symbols has about a sixth of the messages, and the ten busiest two
	// thirds.
	g.zipf = rand.NewZipf(rnd, 1.2, 2, uint64(cfg.Symbols-1))
	for i := range g.stocks {
		g.stocks[i] = newStock(i, rnd)
	}
	return g, nil
}

// Symbol returns the symbol of a stock locate, from 1 to the number of symbols.
func (g *Generator) Symbol(locate uint16) string { return g.stocks[locate-1].name }

// Total is the number of messages of the day: the book messages, one directory message for each
// symbol and four system events.
func (g *Generator) Total() uint64 {
	return g.cfg.Messages + uint64(g.cfg.Symbols) + 4
}

// Next returns the next message; ok is false after the last. It does not allocate.
func (g *Generator) Next() (m itch.Message, ok bool) {
	symbols, messages := uint64(g.cfg.Symbols), g.cfg.Messages
	i := g.step
	g.step++
	switch {
	case i == 0:
		g.event(itch.EventStartOfMessages)
	case i <= symbols:
		g.last = int(i - 1)
		g.emit(itch.Message{Type: itch.TypeStockDirectory, Stock: g.stocks[g.last].symbol, Listing: listing})
	case i == symbols+1:
		g.last = 0 // the market opens with the busiest symbol
		g.event(itch.EventStartOfMarketHours)
	case i <= symbols+1+messages:
		g.now += g.bursts.next(g.rnd)
		g.order()
	case i == symbols+messages+2:
		g.event(itch.EventEndOfMarketHours)
	case i == symbols+messages+3:
		g.event(itch.EventEndOfMessages)
	default:
		g.step-- // stay at the end
		return m, false
	}
	return g.msg, true
}

// Read reads the rest of the day as a file in BinaryFILE framing.
func (g *Generator) Read(p []byte) (int, error) {
	if g.frame.Len() == 0 {
		if m, ok := g.Next(); ok {
			var b [itch.MaxMessage]byte
			g.frame.Write(itch.AppendFrame(g.frame.AvailableBuffer(), m.Append(b[:0])))
		}
	}
	return g.frame.Read(p) // io.EOF if it is empty
}

// listing is the directory entry of each stock after its symbol (ITCH, section 4.2.1): common stock (C) of
// the Nasdaq Global Select Market (Q) in lots of 100, for tests (T), so that it is not taken for a real one.
var listing = [20]byte([]byte("QN\x00\x00\x00\x64NCZ TNN1N\x00\x00\x00\x00N"))

// event makes a system event, which does not concern a single symbol.
func (g *Generator) event(code byte) {
	g.make(itch.Message{Type: itch.TypeSystemEvent, Event: code})
}

// emit makes a message about the stock of g.last.
func (g *Generator) emit(m itch.Message) {
	m.Locate = uint16(g.last + 1)
	g.make(m)
}

func (g *Generator) make(m itch.Message) {
	m.Timestamp = startOfDay + g.now
	g.msg = m
}
