package feed

import "github.com/fanfaremq/fanfare/examples/marketdata/itch"

// Shares of the kinds of book messages, in thousandths, while a book has a usual number of orders. Full days of the
// real feed have about 45 % adds, 43 % deletes, 7 % replaces, 3 % executions, 1 % cancels and 1 % trades with hidden
// orders. The kinds are tried in this order. Further executions come from adds that would have crossed the book.
const (
	shareDelete       = 375
	shareReplace      = 110
	shareExecute      = 25
	shareCancel       = 15
	shareHiddenTrade  = 8
	shareExecutePrice = 2
	// The rest, 465 thousandths, are adds; on a full side a delete instead.
)

// sameStock is the share of messages, in thousandths, about the same stock as the previous one,
// because activity in a stock attracts more.
const sameStock = 350

// attributed is the share of adds, in thousandths, that include the market participant (type 'F').
const attributed = 120

// order makes one book message.
func (g *Generator) order() {
	if g.rnd.IntN(1000) >= sameStock {
		g.last = int(g.zipf.Uint64())
	}
	s := &g.stocks[g.last]
	s.walk(g.rnd.IntN(20))
	side := itch.Buy
	if g.rnd.IntN(2) == 0 {
		side = itch.Sell
	}
	orders := s.side(side)
	switch what := g.rnd.IntN(1000); {
	case len(*orders) < minLive:
		g.add(s, side)
	case len(*orders) == maxLive || what < shareDelete:
		g.delete(orders)
	case what < shareDelete+shareReplace:
		g.replace(s, side)
	case what < shareDelete+shareReplace+shareExecute:
		g.execute(s, side, s.best(side), itch.TypeOrderExecuted)
	case what < shareDelete+shareReplace+shareExecute+shareCancel:
		g.cancel(orders)
	case what < shareDelete+shareReplace+shareExecute+shareCancel+shareHiddenTrade:
		g.hiddenTrade(s)
	case what < shareDelete+shareReplace+shareExecute+shareCancel+shareHiddenTrade+shareExecutePrice:
		g.execute(s, side, s.best(side), itch.TypeOrderExecutedPrice)
	default:
		g.add(s, side)
	}
}

// walk moves the middle of the market by a tick up or down, one time in ten.
func (s *stock) walk(n int) {
	switch {
	case n == 0 && s.mid < maxMid:
		s.mid++
	case n == 1 && s.mid > minMid:
		s.mid--
	}
}

// price draws a price for a new order: usually near the middle, rarely far from it, never below one tick.
func (g *Generator) price(s *stock, side itch.Side) int {
	ticks := 1 + min(int(g.rnd.ExpFloat64()*6), 90)
	if side == itch.Buy {
		return s.mid - ticks
	}
	return s.mid + ticks
}

// shares draws a size: mostly round lots, an odd lot for one order in four.
func (g *Generator) shares() uint32 {
	if g.rnd.IntN(4) == 0 {
		return 1 + g.rnd.Uint32N(99)
	}
	return 100 * (1 + uint32(min(g.rnd.ExpFloat64()*1.2, 40)))
}

// reference returns a new order reference. References increase with gaps, which stand for orders
// that were never displayed.
func (g *Generator) reference() uint64 {
	g.nextRef += 1 + g.rnd.Uint64N(8)
	return g.nextRef
}

func (g *Generator) nextMatch() uint64 {
	g.match++
	return g.match
}

// place draws the price of an order. If it would cross the book it trades instead, as at the
// exchange; then ok is false.
func (g *Generator) place(s *stock, side itch.Side) (price int, ok bool) {
	price = g.price(s, side)
	at, crosses := s.crosses(side, price)
	if crosses {
		g.execute(s, opposite(side), at, itch.TypeOrderExecuted)
	}
	return price, !crosses
}

// add adds an order.
func (g *Generator) add(s *stock, side itch.Side) {
	price, ok := g.place(s, side)
	if !ok {
		return
	}
	o := order{g.reference(), price, g.shares()}
	orders := s.side(side)
	*orders = append(*orders, o)
	m := itch.Message{Type: itch.TypeAddOrder, Ref: o.ref, Side: side, Shares: o.shares, Stock: s.symbol}
	m.Price = itch.Price(o.price * tick)
	if g.rnd.IntN(1000) < attributed {
		m.Type, m.MPID = itch.TypeAddOrderMPID, [4]byte{'F', 'A', 'N', 'F'}
	}
	g.emit(m)
}

// delete removes a random order of a side.
func (g *Generator) delete(orders *[]order) {
	at := g.rnd.IntN(len(*orders))
	g.emit(itch.Message{Type: itch.TypeOrderDelete, Ref: (*orders)[at].ref})
	removeAt(orders, at)
}

// replace gives a random order of a side a new price and size.
func (g *Generator) replace(s *stock, side itch.Side) {
	price, ok := g.place(s, side)
	if !ok {
		return
	}
	orders := *s.side(side)
	old := &orders[g.rnd.IntN(len(orders))]
	o := order{g.reference(), price, g.shares()}
	m := itch.Message{Type: itch.TypeOrderReplace, Ref: old.ref, NewRef: o.ref, Shares: o.shares}
	m.Price = itch.Price(o.price * tick)
	g.emit(m)
	*old = o
}

// cancel removes some shares of a random order of a side; an order of one share is deleted instead,
// because a cancel must leave some.
func (g *Generator) cancel(orders *[]order) {
	o := &(*orders)[g.rnd.IntN(len(*orders))]
	if o.shares == 1 {
		g.delete(orders)
		return
	}
	shares := 1 + g.rnd.Uint32N(o.shares-1)
	o.shares -= shares
	g.emit(itch.Message{Type: itch.TypeOrderCancel, Ref: o.ref, Shares: shares})
}

// execute trades with the order at an index, in half of the cases completely. Executions with a
// price are one tick better for the other party.
func (g *Generator) execute(s *stock, side itch.Side, at int, t itch.Type) {
	m := itch.Message{Type: t, Printable: 'Y', Price: itch.Price(((*s.side(side))[at].price + 1) * tick)}
	m.Ref, m.Shares = g.fill(s, side, at)
	m.Match = g.nextMatch()
	g.emit(m)
}

// fill removes shares from the order at an index, and the order if none remain.
func (g *Generator) fill(s *stock, side itch.Side, at int) (ref uint64, shares uint32) {
	orders := s.side(side)
	o := &(*orders)[at]
	ref, shares = o.ref, o.shares
	if shares > 1 && g.rnd.IntN(2) == 0 {
		shares = 1 + g.rnd.Uint32N(shares-1)
		o.shares -= shares
		return ref, shares
	}
	removeAt(orders, at)
	return ref, shares
}

// hiddenTrade is a trade in the middle of the market with an order that was never displayed.
func (g *Generator) hiddenTrade(s *stock) {
	m := itch.Message{Type: itch.TypeTrade, Side: itch.Buy, Shares: g.shares(), Stock: s.symbol}
	m.Price, m.Match = itch.Price(s.mid*tick), g.nextMatch()
	g.emit(m)
}
