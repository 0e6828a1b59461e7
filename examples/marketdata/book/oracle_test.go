package book

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/fanfaremq/fanfare/examples/marketdata/itch"
)

// oracle is a book that is too simple to be wrong: a list of orders, and
// everything else by looking at all of them.
type oracle struct {
	refs   []uint64
	orders []Order
	stats  Stats
}

func (o *oracle) find(ref uint64) int {
	for i, r := range o.refs {
		if r == ref {
			return i
		}
	}
	return -1
}

func (o *oracle) add(ref uint64, s itch.Side, price itch.Price, shares uint32) {
	switch {
	case shares == 0:
		o.stats.Empty++
	case o.find(ref) >= 0:
		o.stats.Duplicate++
	default:
		o.refs = append(o.refs, ref)
		o.orders = append(o.orders, Order{price, shares, s})
	}
}

func (o *oracle) drop(i int) {
	o.refs = append(o.refs[:i], o.refs[i+1:]...)
	o.orders = append(o.orders[:i], o.orders[i+1:]...)
}

func (o *oracle) reduce(ref uint64, shares uint32) uint32 {
	i := o.find(ref)
	if i < 0 {
		o.stats.Unknown++
		return 0
	}
	had := o.orders[i].Shares
	if shares > had {
		o.stats.Excess++
		shares = had
	}
	if o.orders[i].Shares -= shares; o.orders[i].Shares == 0 {
		o.drop(i)
	}
	return shares
}

func (o *oracle) apply(t *testing.T, msg []byte) {
	o.stats.Messages++
	var err error
	switch itch.Type(msg[0]) {
	case 'A', 'F':
		var m itch.AddOrder
		err = m.Parse(msg)
		o.add(m.Ref, m.Side, m.Price, m.Shares)
	case 'E':
		var m itch.OrderExecuted
		err = m.Parse(msg)
		o.stats.Executed += uint64(o.reduce(m.Ref, m.Shares))
	case 'C':
		var m itch.OrderExecutedPrice
		err = m.Parse(msg)
		o.stats.Executed += uint64(o.reduce(m.Ref, m.Shares))
	case 'X':
		var m itch.OrderCancel
		err = m.Parse(msg)
		o.reduce(m.Ref, m.Shares)
	case 'D':
		var m itch.OrderDelete
		err = m.Parse(msg)
		if i := o.find(m.Ref); i >= 0 {
			o.drop(i)
		} else {
			o.stats.Unknown++
		}
	case 'U':
		var m itch.OrderReplace
		err = m.Parse(msg)
		if i := o.find(m.OldRef); i >= 0 {
			s := o.orders[i].Side
			o.drop(i)
			o.add(m.NewRef, s, m.Price, m.Shares)
		} else {
			o.stats.Unknown++
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// depth sums the orders of a side by price and picks the best again and again.
func (o *oracle) depth(s itch.Side) []Level {
	byPrice := map[itch.Price]Level{}
	for _, x := range o.orders {
		if x.Side == s {
			l := byPrice[x.Price]
			byPrice[x.Price] = Level{x.Price, l.Shares + uint64(x.Shares), l.Orders + 1}
		}
	}
	levels := []Level{}
	for len(byPrice) > 0 {
		var best Level
		for _, l := range byPrice {
			if best.Orders == 0 || (s == itch.Buy) == (l.Price > best.Price) {
				best = l
			}
		}
		levels = append(levels, best)
		delete(byPrice, best.Price)
	}
	return levels
}

// compare fails the test unless b shows exactly what o does.
func compare(t *testing.T, b *Book, o *oracle) {
	t.Helper()
	if b.Stats() != o.stats || b.Len() != len(o.orders) {
		t.Fatalf("%+v and %d orders, want %+v and %d", b.Stats(), b.Len(), o.stats, len(o.orders))
	}
	for i, ref := range o.refs {
		if got, ok := b.Order(ref); !ok || got != o.orders[i] {
			t.Fatalf("order %d: %+v, %v, want %+v", ref, got, ok, o.orders[i])
		}
	}
	bid, ask := b.Top()
	for _, c := range []struct {
		side itch.Side
		top  Level
	}{{itch.Buy, bid}, {itch.Sell, ask}} {
		want := o.depth(c.side)
		if got := b.Depth(c.side); !reflect.DeepEqual(got, want) && len(got)+len(want) > 0 {
			t.Fatalf("%v: depth %v, want %v", c.side, got, want)
		}
		var best Level
		if len(want) > 0 {
			best = want[0]
		}
		if c.top != best {
			t.Fatalf("%v: top %v, want %v", c.side, c.top, best)
		}
	}
}

// messages makes messages of every type about a few dozen references, so that
// all of it happens: duplicates, unknown ones, executions in part, in full and
// beyond.
type messages struct{ rnd *rand.Rand }

func (g messages) next() []byte {
	ref := func() uint64 { return g.rnd.Uint64N(40) }
	shares := uint32(g.rnd.IntN(5)) // 0 too
	price := itch.Price(10000 + 100*g.rnd.IntN(8))
	h := itch.Header{Locate: uint16(1 + g.rnd.IntN(3))}
	switch g.rnd.IntN(10) {
	case 0, 1, 2:
		side := itch.Buy
		if g.rnd.IntN(2) == 0 {
			side = itch.Sell
		}
		m := itch.AddOrder{Header: h, Ref: ref(), Side: side, Shares: shares, Price: price}
		if g.rnd.IntN(4) == 0 {
			m.Type = itch.TypeAddOrderMPID
		}
		return m.Append(nil)
	case 3:
		m := itch.OrderExecuted{Header: h, Ref: ref(), Shares: shares}
		return m.Append(nil)
	case 4:
		m := itch.OrderExecutedPrice{Header: h, Ref: ref(), Shares: shares, Price: price + 50, Printable: 'Y'}
		return m.Append(nil)
	case 5:
		m := itch.OrderCancel{Header: h, Ref: ref(), Shares: shares}
		return m.Append(nil)
	case 6:
		m := itch.OrderDelete{Header: h, Ref: ref()}
		return m.Append(nil)
	case 7:
		m := itch.Trade{Header: h, Side: itch.Buy, Shares: shares, Price: price}
		return m.Append(nil)
	default:
		m := itch.OrderReplace{Header: h, OldRef: ref(), NewRef: ref(), Shares: shares, Price: price}
		return m.Append(nil)
	}
}

func newRand(t testing.TB) *rand.Rand {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}
