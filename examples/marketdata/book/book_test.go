package book

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"os"
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

func TestAgainstOracle(t *testing.T) {
	g := messages{newRand(t)}
	for range 20 {
		b, o := New(), &oracle{}
		for range 500 {
			msg := g.next()
			o.apply(t, msg)
			if err := b.Apply(msg); err != nil {
				t.Fatal(err)
			}
			compare(t, b, o)
		}
		if o.stats.Unknown == 0 || o.stats.Duplicate == 0 || o.stats.Excess == 0 || o.stats.Empty == 0 || o.stats.Executed == 0 {
			t.Errorf("not everything was tried: %+v", o.stats)
		}
	}
}

// Books that come to the same state by the same messages have one digest;
// leaving out, doubling or swapping any one message that matters shows.
func TestDigest(t *testing.T) {
	g := messages{newRand(t)}
	msgs := make([][]byte, 300)
	for i := range msgs {
		msgs[i] = g.next()
	}
	digest := func(msgs [][]byte) Digest {
		s := NewSet()
		for _, m := range msgs {
			if err := s.Apply(m); err != nil {
				t.Fatal(err)
			}
		}
		return s.Digest()
	}
	want := digest(msgs)
	if got := digest(msgs); got != want {
		t.Fatalf("the same messages give %v and %v", got, want)
	}
	for i := range msgs {
		without := append(append([][]byte{}, msgs[:i]...), msgs[i+1:]...)
		if digest(without) == want {
			t.Errorf("message %d of %d is missing and the digest is the same", i, len(msgs))
		}
	}
}

// Each thing that makes two books differ makes their digests differ.
func TestDigestSees(t *testing.T) {
	seen := map[Digest]string{}
	for name, build := range map[string]func(*Book){
		"empty":          func(b *Book) {},
		"one order":      func(b *Book) { b.Add(1, 'B', 100, 10) },
		"other side":     func(b *Book) { b.Add(1, 'S', 100, 10) },
		"other price":    func(b *Book) { b.Add(1, 'B', 101, 10) },
		"other size":     func(b *Book) { b.Add(1, 'B', 100, 11) },
		"other ref":      func(b *Book) { b.Add(2, 'B', 100, 10) },
		"two orders":     func(b *Book) { b.Add(1, 'B', 100, 5); b.Add(2, 'B', 100, 5) },
		"added, deleted": func(b *Book) { b.Add(1, 'B', 100, 10); b.Execute(1, 10) },
		"unknown":        func(b *Book) { b.Delete(1) },
		"no shares":      func(b *Book) { b.Add(1, 'B', 100, 0) },
		"duplicate":      func(b *Book) { b.Add(1, 'B', 100, 10); b.Add(1, 'B', 100, 10) },
		"excess":         func(b *Book) { b.Add(1, 'B', 100, 10); b.Add(2, 'B', 100, 10); b.Cancel(2, 11) },
		"wrong level":    func(b *Book) { b.Add(1, 'B', 100, 10); b.bids.levels[0].Shares++ },
	} {
		b := New()
		build(b)
		if other, dup := seen[b.Digest()]; dup {
			t.Errorf("%q and %q have one digest", name, other)
		}
		seen[b.Digest()] = name
	}

	one, two := NewSet(), NewSet()
	one.at(1).Add(1, 'B', 100, 10)
	two.at(2).Add(1, 'B', 100, 10)
	if one.Digest() == two.Digest() || one.Digest() == NewSet().Digest() {
		t.Error("sets with different stock locates have one digest")
	}

	want := one.Digest()
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Digest
	if err := json.Unmarshal(text, &got); err != nil || got != want {
		t.Errorf("%s became %v, %v", text, got, err)
	}
	if json.Unmarshal([]byte(`"00"`), &got) == nil || json.Unmarshal([]byte(`"xy"`), &got) == nil {
		t.Error("half a digest was accepted")
	}
}

// A damaged message changes nothing, not even a counter.
func TestDamagedMessage(t *testing.T) {
	s := NewSet()
	b := s.at(1)
	b.Add(1, 'B', 100, 10)
	want := s.Digest()
	good := (&itch.OrderExecuted{Header: itch.Header{Locate: 1}, Ref: 1, Shares: 1}).Append(nil)
	for n := range len(good) {
		if b.Apply(good[:n]) == nil || s.Apply(good[:n]) == nil {
			t.Errorf("%d of %d bytes were accepted", n, len(good))
		}
	}
	if s.Digest() != want {
		t.Error("the book has changed")
	}
	if s.Apply(good) != nil || s.Digest() == want {
		t.Error("the whole message was not applied")
	}
}

// The sample begins in mid-session: hardly any of its executions, deletions
// and replacements are about orders that it added.
func TestSample(t *testing.T) {
	file, err := os.ReadFile("../itch/testdata/12302019_SNIPPET.NASDAQ_ITCH50")
	if err != nil {
		t.Fatal(err)
	}
	r, err := itch.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s := NewSet()
	type key struct {
		locate uint16
		ref    uint64
	}
	known := map[key]bool{} // references that were added, ever
	var unknown uint64
	for {
		msg, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Apply(msg); err != nil {
			t.Fatal(err)
		}
		h, _ := itch.ParseHeader(msg)
		ref := func(at int) key { return key{h.Locate, be64(msg[at:])} }
		switch h.Type {
		case 'A', 'F':
			known[ref(11)] = true
		case 'U':
			if known[ref(11)] {
				known[ref(19)] = true
			}
			fallthrough
		case 'E', 'C', 'X', 'D':
			if !known[ref(11)] {
				unknown++
			}
		}
	}
	stats, orders := s.Stats()
	if stats.Messages != 1000 || stats.Unknown != unknown || stats.Duplicate+stats.Excess+stats.Empty != 0 {
		t.Errorf("%+v, want 1000 messages, %d unknown and nothing inconsistent", stats, unknown)
	}
	t.Logf("%d orders, %d unknown references", orders, stats.Unknown)
}

func be64(b []byte) (n uint64) {
	for _, x := range b[:8] {
		n = n<<8 | uint64(x)
	}
	return n
}

// Once a book has grown to its size, messages allocate nothing.
func TestApplyNoAllocations(t *testing.T) {
	s := NewSet()
	h := itch.Header{Locate: 7}
	var ref uint64
	buf := make([]byte, 0, itch.MaxMessage)
	apply := func() {
		if err := s.Apply(buf); err != nil {
			t.Fatal(err)
		}
	}
	round := func() {
		ref++
		add := itch.AddOrder{Header: h, Ref: ref, Side: itch.Buy, Shares: 100, Price: itch.Price(10000 + ref%50)}
		buf = add.Append(buf[:0])
		apply()
		exec := itch.OrderExecuted{Header: h, Ref: ref, Shares: 10}
		buf = exec.Append(buf[:0])
		apply()
		repl := itch.OrderReplace{Header: h, OldRef: ref, NewRef: ref + 1, Shares: 90, Price: 9000}
		buf = repl.Append(buf[:0])
		apply()
		ref++
		del := itch.OrderDelete{Header: h, Ref: ref}
		buf = del.Append(buf[:0])
		apply()
		s.Book(7).Top()
	}
	for range 1000 {
		round()
	}
	if n := testing.AllocsPerRun(1000, round); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if s.Book(7).Len() != 0 {
		t.Errorf("%d orders are left", s.Book(7).Len())
	}
}

func TestSetBook(t *testing.T) {
	s := NewSet()
	if s.Book(3) != nil {
		t.Error("a book before its first message")
	}
	m := itch.AddOrder{Header: itch.Header{Locate: 3}, Ref: 1, Side: itch.Sell, Shares: 5, Price: 70000}
	if err := s.Apply(m.Append(nil)); err != nil {
		t.Fatal(err)
	}
	bid, ask := s.Book(3).Top()
	if bid != (Level{}) || ask != (Level{70000, 5, 1}) {
		t.Errorf("top %v %v", bid, ask)
	}
	for locate := range s.All() {
		if locate != 3 {
			t.Errorf("book %d", locate)
		}
	}
}

func BenchmarkApply(b *testing.B) {
	g := messages{newRand(b)}
	msgs := make([][]byte, 1<<14)
	for i := range msgs {
		msgs[i] = g.next()
	}
	s := NewSet()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if err := s.Apply(msgs[i&(len(msgs)-1)]); err != nil {
			b.Fatal(err)
		}
		i++
	}
}
