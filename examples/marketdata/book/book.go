// Package book builds order books from messages of Nasdaq TotalView-ITCH 5.0.
//
// A Book is the displayed orders of one stock: each order by its reference, and the sum of the orders at each price, a
// level. A Set is a book for each stock locate. The same messages in the same order yield identical books, and Digest
// proves it: books of two processes are equal if and only if (short of a SHA-256 collision) their digests are.
//
// A feed that is received from mid-session on executes, cancels, deletes and replaces orders that were added before.
// Such messages are counted in Stats.Unknown and change nothing, like all others that a consistent feed never
// contains.
package book

import "github.com/fanfaremq/fanfare/examples/marketdata/itch"

// Order is one displayed order.
type Order struct {
	Price  itch.Price
	Shares uint32 // remaining shares, never 0
	Side   itch.Side
}

// Level is all orders of one side at one price.
type Level struct {
	Price  itch.Price
	Shares uint64 // sum over the orders, never 0
	Orders uint32 // never 0
}

// Stats counts the messages applied to a book.
type Stats struct {
	Messages uint64 // applied, of any type
	Executed uint64 // shares executed against displayed orders
	Unknown  uint64 // messages about an order that the book does not hold

	// The rest stays 0 with any complete feed in order.
	Duplicate uint64 // adds and replaces with a reference in use
	Excess    uint64 // executions and cancels of more shares than remained
	Empty     uint64 // adds and replaces of no shares
}

// fields are the counters, in the order of a book's state.
func (s *Stats) fields() [6]*uint64 {
	return [...]*uint64{&s.Messages, &s.Executed, &s.Unknown, &s.Duplicate, &s.Excess, &s.Empty}
}

// Book is the order book of one stock. It is not safe for concurrent use.
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

// Apply applies one message. Types that do not concern the book are only counted. It allocates only
// to make room for more orders and levels.
func (b *Book) Apply(m *itch.Message) {
	b.stats.Messages++
	switch m.Type {
	case itch.TypeAddOrder, itch.TypeAddOrderMPID:
		b.add(m.Ref, Order{m.Price, m.Shares, m.Side})
	case itch.TypeOrderExecuted, itch.TypeOrderExecutedPrice:
		// The price of the execution does not matter: the shares leave the order's level.
		b.stats.Executed += uint64(b.reduce(m.Ref, m.Shares))
	case itch.TypeOrderCancel:
		b.reduce(m.Ref, m.Shares)
	case itch.TypeOrderDelete:
		b.remove(m.Ref)
	case itch.TypeOrderReplace:
		// The side is that of the old order, so without it the side is unknown.
		if o, ok := b.remove(m.Ref); ok {
			b.add(m.NewRef, Order{m.Price, m.Shares, o.Side})
		}
	}
}

// add adds an order to the book.
func (b *Book) add(ref uint64, o Order) {
	if o.Shares == 0 {
		b.stats.Empty++
		return
	}
	if _, used := b.orders[ref]; used {
		b.stats.Duplicate++
		return
	}
	b.orders[ref] = o
	b.side(o.Side).add(o.Price, o.Shares)
}

// reduce removes shares from an order, and an empty order from the book. It returns the number of shares removed.
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
	filled := shares == o.Shares
	b.side(o.Side).remove(o.Price, shares, filled)
	if filled {
		delete(b.orders, ref)
	} else {
		o.Shares -= shares
		b.orders[ref] = o
	}
	return shares
}

// remove removes an order from the book and returns it.
func (b *Book) remove(ref uint64) (Order, bool) {
	o, ok := b.orders[ref]
	if !ok {
		b.stats.Unknown++
		return Order{}, false
	}
	b.side(o.Side).remove(o.Price, o.Shares, true)
	delete(b.orders, ref)
	return o, true
}

func (b *Book) side(s itch.Side) *side {
	if s == itch.Buy {
		return &b.bids
	}
	return &b.asks
}

// Top returns the best bid and the best ask; a level without orders represents an empty side.
func (b *Book) Top() (bid, ask Level) {
	return b.bids.best(), b.asks.best()
}

// Len returns the number of orders in the book.
func (b *Book) Len() int { return len(b.orders) }

// Stats returns the counters.
func (b *Book) Stats() Stats { return b.stats }
