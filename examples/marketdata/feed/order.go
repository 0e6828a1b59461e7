package feed

import "github.com/fanfaremq/fanfare/examples/marketdata/itch"

// What a book message does, in thousandths, while a book has a usual number of
// orders. Full days of the real feed have about 45 % adds, 43 % deletes, 7 %
// replaces, 3 % executions, 1 % cancels and 1 % trades with hidden orders;
// what a message is, is decided in this order. Executions come on top, from
// adds that would have crossed the book.
const (
	shareDelete       = 375
	shareReplace      = 110
	shareExecute      = 25
	shareCancel       = 15
	shareHiddenTrade  = 8
	shareExecutePrice = 2
	// The rest, 465 thousandths, are adds; a side that is full deletes.
)

// sameStock is the share of messages, in thousandths, that are about the same
// stock as the one before: activity in a stock draws activity in it.
const sameStock = 350

// attributed is the share of adds, in thousandths, that name the market
// participant (type 'F').
const attributed = 120

// order makes one book message.
func (g *Generator) order() Message {
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
		g.execute(s, side, s.best(side))
	case what < shareDelete+shareReplace+shareExecute+shareCancel:
		g.cancel(orders)
	case what < shareDelete+shareReplace+shareExecute+shareCancel+shareHiddenTrade:
		g.hiddenTrade(s)
	case what < shareDelete+shareReplace+shareExecute+shareCancel+shareHiddenTrade+shareExecutePrice:
		g.executePrice(s, side, s.best(side))
	default:
		g.add(s, side)
	}
	return g.message(g.last)
}

// walk moves the middle of the market up or down by a tick, one time in ten.
func (s *stock) walk(n int) {
	switch {
	case n == 0 && s.mid < maxMid:
		s.mid++
	case n == 1 && s.mid > minMid:
		s.mid--
	}
}

// price draws a price for a new order: near the middle most of the time,
// rarely far from it, never below one tick.
func (g *Generator) price(s *stock, side itch.Side) int {
	ticks := 1 + min(int(g.rnd.ExpFloat64()*6), 90)
	if side == itch.Buy {
		return s.mid - ticks
	}
	return s.mid + ticks
}

// shares draws a size: mostly round lots, one order in four an odd lot.
func (g *Generator) shares() uint32 {
	if g.rnd.IntN(4) == 0 {
		return 1 + g.rnd.Uint32N(99)
	}
	return 100 * (1 + uint32(min(g.rnd.ExpFloat64()*1.2, 40)))
}

// reference returns a new order reference. References grow over the day with
// holes in them: those of orders that were never displayed.
func (g *Generator) reference() uint64 {
	g.nextRef += 1 + g.rnd.Uint64N(8)
	return g.nextRef
}

func (g *Generator) nextMatch() uint64 {
	g.match++
	return g.match
}

// add adds an order; one that would cross the book trades instead, as at the
// exchange.
func (g *Generator) add(s *stock, side itch.Side) {
	price := g.price(s, side)
	if at, ok := s.crosses(side, price); ok {
		g.execute(s, opposite(side), at)
		return
	}
	o := order{g.reference(), price, g.shares()}
	orders := s.side(side)
	*orders = append(*orders, o)
	m := itch.AddOrder{
		Header: g.header(g.last),
		Ref:    o.ref,
		Side:   side,
		Shares: o.shares,
		Stock:  s.symbol,
		Price:  itch.Price(price * tick),
	}
	if g.rnd.IntN(1000) < attributed {
		m.Type = itch.TypeAddOrderMPID
		m.MPID = [4]byte{'F', 'A', 'N', 'F'}
	}
	g.buf = m.Append(g.buf[:0])
}

// delete takes any order of a side out of the book.
func (g *Generator) delete(orders *[]order) {
	at := g.rnd.IntN(len(*orders))
	m := itch.OrderDelete{Header: g.header(g.last), Ref: (*orders)[at].ref}
	removeAt(orders, at)
	g.buf = m.Append(g.buf[:0])
}

// replace gives any order of a side a new price and size; a price that would
// cross the book trades instead.
func (g *Generator) replace(s *stock, side itch.Side) {
	price := g.price(s, side)
	if at, ok := s.crosses(side, price); ok {
		g.execute(s, opposite(side), at)
		return
	}
	orders := *s.side(side)
	at := g.rnd.IntN(len(orders))
	o := order{g.reference(), price, g.shares()}
	m := itch.OrderReplace{
		Header: g.header(g.last),
		OldRef: orders[at].ref,
		NewRef: o.ref,
		Shares: o.shares,
		Price:  itch.Price(price * tick),
	}
	orders[at] = o
	g.buf = m.Append(g.buf[:0])
}

// cancel takes a part of any order of a side; an order of one share is deleted
// instead, as a cancel must leave something.
func (g *Generator) cancel(orders *[]order) {
	at := g.rnd.IntN(len(*orders))
	o := &(*orders)[at]
	if o.shares == 1 {
		g.delete(orders)
		return
	}
	m := itch.OrderCancel{Header: g.header(g.last), Ref: o.ref, Shares: 1 + g.rnd.Uint32N(o.shares-1)}
	o.shares -= m.Shares
	g.buf = m.Append(g.buf[:0])
}

// execute trades with the order at an index, half of the time with all of it.
func (g *Generator) execute(s *stock, side itch.Side, at int) {
	ref, shares := g.fill(s, side, at)
	m := itch.OrderExecuted{Header: g.header(g.last), Ref: ref, Shares: shares, Match: g.nextMatch()}
	g.buf = m.Append(g.buf[:0])
}

// executePrice is execute at a price one tick better for the other party.
func (g *Generator) executePrice(s *stock, side itch.Side, at int) {
	price := (*s.side(side))[at].price
	ref, shares := g.fill(s, side, at)
	m := itch.OrderExecutedPrice{
		Header:    g.header(g.last),
		Ref:       ref,
		Shares:    shares,
		Match:     g.nextMatch(),
		Printable: 'Y',
		Price:     itch.Price((price + 1) * tick),
	}
	g.buf = m.Append(g.buf[:0])
}

// fill takes shares off the order at an index, and the order out when none are
// left.
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

// hiddenTrade is a trade in the middle of the market with an order that was
// never displayed.
func (g *Generator) hiddenTrade(s *stock) {
	m := itch.Trade{
		Header: g.header(g.last),
		Side:   itch.Buy,
		Shares: g.shares(),
		Stock:  s.symbol,
		Price:  itch.Price(s.mid * tick),
		Match:  g.nextMatch(),
	}
	g.buf = m.Append(g.buf[:0])
}
