// Package book builds order books from messages of Nasdaq TotalView-ITCH 5.0.
//
// A Book is the displayed orders of one stock: each order by its reference,
// and the sum of the orders at each price, a level. A Set is a book for each
// stock locate. What the same messages in the same order leave behind is the
// same to the last order, and Digest proves it: books of two processes are
// equal if and only if (short of a SHA-256 collision) their digests are.
//
// A feed that is picked up in mid-session executes, cancels, deletes and
// replaces orders that were added before. Those are counted in Stats.Unknown
// and change nothing; so are the other things that a consistent feed never
// does.
package book

import (
	"slices"

	"github.com/fanfaremq/fanfare/examples/marketdata/itch"
)

// Order is one displayed order.
type Order struct {
	Price  itch.Price
	Shares uint32 // what is left of it, never 0
	Side   itch.Side
}

// Level is all orders of one side at one price.
type Level struct {
	Price  itch.Price
	Shares uint64 // sum over the orders, never 0
	Orders uint32 // never 0
}

// Stats counts what was applied to a book.
type Stats struct {
	Messages uint64 // applied, of any type
	Executed uint64 // shares executed against displayed orders
	Unknown  uint64 // messages about an order that the book does not hold

	// The rest stays 0 with any feed that is in order and complete.
	Duplicate uint64 // adds and replaces with a reference in use
	Excess    uint64 // executions and cancels of more shares than were left
	Empty     uint64 // adds and replaces of no shares
}

// add sums two counts.
func (s *Stats) add(o Stats) {
	s.Messages += o.Messages
	s.Executed += o.Executed
	s.Unknown += o.Unknown
	s.Duplicate += o.Duplicate
	s.Excess += o.Excess
	s.Empty += o.Empty
}

// Book is the order book of one stock. It is for one goroutine.
type Book struct {
	orders map[uint64]Order // by order reference
	bids   side
	asks   side
	stats  Stats
}

// New returns an empty book.
func New() *Book {
	return &Book{
		orders: map[uint64]Order{},
		bids:   side{sign: 1},
		asks:   side{sign: -1},
	}
}

// Add puts a new order into the book.
func (b *Book) Add(ref uint64, s itch.Side, price itch.Price, shares uint32) {
	if shares == 0 {
		b.stats.Empty++
		return
	}
	if _, used := b.orders[ref]; used {
		b.stats.Duplicate++
		return
	}
	b.orders[ref] = Order{price, shares, s}
	b.side(s).add(price, shares)
}

// Execute takes shares that were traded off an order. The price of the
// execution is of no interest to the book: the shares leave the order's level.
func (b *Book) Execute(ref uint64, shares uint32) {
	b.stats.Executed += uint64(b.reduce(ref, shares))
}

// Cancel takes shares that its owner withdrew off an order.
func (b *Book) Cancel(ref uint64, shares uint32) {
	b.reduce(ref, shares)
}

// reduce takes shares off an order, and the order out of the book when none
// are left. It returns how many it took.
func (b *Book) reduce(ref uint64, shares uint32) uint32 {
	o, ok := b.orders[ref]
	if !ok {
		b.stats.Unknown++
		return 0
	}
	if shares > o.Shares {
		b.stats.Excess++
		shares = o.Shares
	}
	gone := shares == o.Shares
	b.side(o.Side).remove(o.Price, shares, gone)
	if gone {
		delete(b.orders, ref)
	} else {
		o.Shares -= shares
		b.orders[ref] = o
	}
	return shares
}

// Delete takes an order out of the book.
func (b *Book) Delete(ref uint64) {
	b.take(ref)
}

// take is Delete that returns what it took.
func (b *Book) take(ref uint64) (Order, bool) {
	o, ok := b.orders[ref]
	if !ok {
		b.stats.Unknown++
		return Order{}, false
	}
	b.side(o.Side).remove(o.Price, o.Shares, true)
	delete(b.orders, ref)
	return o, true
}

// Replace puts a new order in the place of an old one, on the same side. If
// the old one is unknown so is the side, and the book stays as it is.
func (b *Book) Replace(oldRef, newRef uint64, price itch.Price, shares uint32) {
	if o, ok := b.take(oldRef); ok {
		b.Add(newRef, o.Side, price, shares)
	}
}

func (b *Book) side(s itch.Side) *side {
	if s == itch.Buy {
		return &b.bids
	}
	return &b.asks
}

// Top returns the best bid and the best ask; a level of no orders stands for
// an empty side.
func (b *Book) Top() (bid, ask Level) {
	return b.bids.best(), b.asks.best()
}

// Depth returns the levels of a side, best first. It allocates.
func (b *Book) Depth(s itch.Side) []Level {
	levels := slices.Clone(b.side(s).levels)
	slices.Reverse(levels)
	return levels
}

// Order returns the order with a reference, if the book holds it.
func (b *Book) Order(ref uint64) (Order, bool) {
	o, ok := b.orders[ref]
	return o, ok
}

// Len returns the number of orders in the book.
func (b *Book) Len() int { return len(b.orders) }

// Stats returns the counters.
func (b *Book) Stats() Stats { return b.stats }
