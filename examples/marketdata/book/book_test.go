package book

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"testing"

	"github.com/fanfaremq/fanfare/examples/marketdata/itch"
)

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
