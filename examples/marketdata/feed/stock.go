package feed

import (
	"math"
	"math/rand/v2"

	"github.com/fanfaremq/fanfare/examples/marketdata/itch"
)

// stock is a symbol with the live orders of its book.
type stock struct {
	name   string
	symbol itch.Symbol
	mid    int // ticks; a random walk
	bids   []order
	asks   []order
}

// order is an order in the book of a stock.
type order struct {
	ref    uint64
	price  int // ticks
	shares uint32
}

// tick is the smallest step of a price: one cent.
const tick = 100 // in units of itch.Price

// Prices stay between these limits, in ticks; the lower one leaves room for bids far below the middle.
const (
	minMid = 1_00
	maxMid = 2_000_00
)

// names are well-known symbols; symbolName makes further ones.
var names = [...]string{
	"AAPL", "MSFT", "AMZN", "NVDA", "TSLA", "GOOGL", "META", "AMD", "INTC", "CSCO",
	"NFLX", "QCOM", "ADBE", "TXN", "AVGO", "COST", "PEP", "CMCSA", "AMGN", "SBUX",
	"GILD", "MU", "AMAT", "LRCX", "MDLZ", "BKNG", "ISRG", "ADP", "REGN", "VRTX",
	"ATVI", "CSX", "KLAC", "MRVL", "SNPS", "CDNS", "ORLY", "MAR", "CTAS", "FTNT",
	"ADSK", "PCAR", "PAYX", "KDP", "MNST", "ROST", "EXC", "XEL", "EBAY", "FAST",
}

// symbolName returns the symbol with an index: a well-known one, or five letters that begin with Z,
// unlike all well-known ones.
func symbolName(index int) string {
	if index < len(names) {
		return names[index]
	}
	n := index - len(names)
	s := [5]byte{'Z'}
	for i := len(s) - 1; i > 0; i-- {
		s[i] = 'A' + byte(n%26)
		n /= 26
	}
	return string(s[:])
}

func newStock(index int, rnd *rand.Rand) stock {
	name := symbolName(index)
	dollars := 60 * math.Exp(0.9*rnd.NormFloat64())
	return stock{
		name:   name,
		symbol: itch.MakeSymbol(name),
		mid:    min(max(int(100*dollars), minMid), maxMid),
		bids:   make([]order, 0, maxLive),
		asks:   make([]order, 0, maxLive),
	}
}

// side returns the orders of a side.
func (s *stock) side(side itch.Side) *[]order {
	if side == itch.Buy {
		return &s.bids
	}
	return &s.asks
}

// best returns the index of the order of a side that trades first: best price, then lowest
// reference, which is the oldest order. It returns -1 if there is none.
func (s *stock) best(side itch.Side) int {
	at := -1
	orders := *s.side(side)
	for i := range orders {
		if at < 0 || before(side, orders[i], orders[at]) {
			at = i
		}
	}
	return at
}

func before(side itch.Side, a, b order) bool {
	if a.price != b.price {
		return (side == itch.Buy) == (a.price > b.price)
	}
	return a.ref < b.ref
}

// crosses reports whether an order of side at price would trade with an order in the book, and returns its index.
func (s *stock) crosses(side itch.Side, price int) (int, bool) {
	other := opposite(side)
	at := s.best(other)
	if at < 0 {
		return -1, false
	}
	resting := (*s.side(other))[at].price
	return at, (side == itch.Buy && price >= resting) || (side == itch.Sell && price <= resting)
}

func opposite(side itch.Side) itch.Side {
	if side == itch.Buy {
		return itch.Sell
	}
	return itch.Buy
}

// removeAt removes an order; the order of elements does not matter.
func removeAt(orders *[]order, i int) {
	o := *orders
	o[i] = o[len(o)-1]
	*orders = o[:len(o)-1]
}
