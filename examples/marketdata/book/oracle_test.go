package book

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/fanfaremq/fanfare/examples/marketdata/itch"
)

// oracle is a trivially correct book: a list of orders that is searched for every operation.
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

func (o *oracle) apply(m *itch.Message) {
	o.stats.Messages++
	switch m.Type {
	case 'A', 'F':
		o.add(m.Ref, m.Side, m.Price, m.Shares)
	case 'E', 'C':
		o.stats.Executed += uint64(o.reduce(m.Ref, m.Shares))
	case 'X':
		o.reduce(m.Ref, m.Shares)
	case 'D', 'U':
		i := o.find(m.Ref)
		if i < 0 {
			o.stats.Unknown++
			break
		}
		s := o.orders[i].Side
		o.drop(i)
		if m.Type == 'U' {
			o.add(m.NewRef, s, m.Price, m.Shares)
		}
	}
}

// depth sums the orders of a side by price, and selects the best price repeatedly.
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

// compare fails the test unless b equals o.
func compare(t *testing.T, b *Book, o *oracle) {
	t.Helper()
	if b.Stats() != o.stats || b.Len() != len(o.orders) {
		t.Fatalf("%+v and %d orders, want %+v and %d", b.Stats(), b.Len(), o.stats, len(o.orders))
	}
	for i, ref := range o.refs {
		if got, ok := b.orders[ref]; !ok || got != o.orders[i] {
			t.Fatalf("order %d: %+v, %v, want %+v", ref, got, ok, o.orders[i])
		}
	}
	bid, ask := b.Top()
	for _, c := range []struct {
		side itch.Side
		top  Level
	}{{itch.Buy, bid}, {itch.Sell, ask}} {
		want := o.depth(c.side)
		got := slices.Clone(b.side(c.side).levels)
		if slices.Reverse(got); !reflect.DeepEqual(got, want) && len(got)+len(want) > 0 {
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

// messages makes messages of every type with a few dozen references, so that all cases occur:
// duplicates, unknown references, and partial, complete and excessive executions.
type messages struct{ rnd *rand.Rand }

func (g messages) next() *itch.Message {
	return &itch.Message{
		Type: itch.Type("AAFECXDPUU"[g.rnd.IntN(10)]), Locate: uint16(1 + g.rnd.IntN(3)), Side: itch.Side("BS"[g.rnd.IntN(2)]),
		Ref: g.rnd.Uint64N(40), NewRef: g.rnd.Uint64N(40),
		Shares: uint32(g.rnd.IntN(5)), // including 0
		Price:  itch.Price(10000 + 100*g.rnd.IntN(8)),
	}
}

func newRand(t testing.TB) *rand.Rand {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}
