package book

import (
	"bytes"
	"io"
	"os"
	"slices"
	"testing"

	"github.com/fanfaremq/fanfare/examples/marketdata/itch"
)

func TestAgainstOracle(t *testing.T) {
	g := messages{newRand(t)}
	for range 20 {
		b, o := New(), &oracle{}
		for range 500 {
			msg := g.next()
			o.apply(msg)
			b.Apply(msg)
			compare(t, b, o)
		}
		if o.stats.Unknown == 0 || o.stats.Duplicate == 0 || o.stats.Excess == 0 || o.stats.Empty == 0 || o.stats.Executed == 0 {
			t.Errorf("not all cases occurred: %+v", o.stats)
		}
	}
}

// Books built from the same messages have the same digest; a missing, duplicate or swapped relevant message changes it.
func TestDigest(t *testing.T) {
	g := messages{newRand(t)}
	msgs := make([]*itch.Message, 300)
	for i := range msgs {
		msgs[i] = g.next()
	}
	digest := func(msgs []*itch.Message) Digest {
		s := new(Set)
		for _, m := range msgs {
			s.Apply(m)
		}
		return s.Digest()
	}
	want := digest(msgs)
	if got := digest(msgs); got != want {
		t.Fatalf("the same messages give digests %v and %v", got, want)
	}
	for i := range msgs {
		without := slices.Concat(msgs[:i], msgs[i+1:])
		if digest(without) == want {
			t.Errorf("message %d of %d is missing, but the digest is the same", i, len(msgs))
		}
	}
}

// Every difference between two books changes the digest.
func TestDigestCoversAll(t *testing.T) {
	add := func(ref uint64, s itch.Side, p itch.Price, shares uint32) *itch.Message {
		return &itch.Message{Type: 'A', Ref: ref, Side: s, Price: p, Shares: shares}
	}
	of := func(t itch.Type, ref uint64, shares uint32) *itch.Message {
		return &itch.Message{Type: t, Ref: ref, Shares: shares}
	}
	// All have two messages, so the number does not differ.
	seen := map[Digest]string{}
	none := of('P', 0, 0)
	for name, msgs := range map[string][2]*itch.Message{
		"empty":         {none, none},
		"one order":     {none, add(1, 'B', 100, 10)},
		"other side":    {none, add(1, 'S', 100, 10)},
		"other price":   {none, add(1, 'B', 101, 10)},
		"other size":    {none, add(1, 'B', 100, 11)},
		"other ref":     {none, add(2, 'B', 100, 10)},
		"two orders":    {add(1, 'B', 100, 5), add(2, 'B', 100, 5)},
		"added, traded": {add(1, 'B', 100, 10), of('E', 1, 10)},
		"unknown":       {none, of('D', 1, 0)},
		"no shares":     {none, add(1, 'B', 100, 0)},
		"duplicate":     {add(1, 'B', 100, 10), add(1, 'B', 100, 10)},
		"excess":        {add(1, 'B', 100, 10), of('X', 1, 11)},
	} {
		b := New()
		b.Apply(msgs[0])
		b.Apply(msgs[1])
		if other, dup := seen[b.Digest()]; dup {
			t.Errorf("%q and %q have one digest", name, other)
		}
		seen[b.Digest()] = name
	}
	wrong, right := New(), New()
	wrong.Apply(add(1, 'B', 100, 10))
	right.Apply(add(1, 'B', 100, 10))
	if wrong.bids.levels[0].Shares++; wrong.Digest() == right.Digest() {
		t.Error("a wrong level does not change the digest")
	}

	one, two := new(Set), new(Set)
	one.at(1).Apply(add(1, 'B', 100, 10))
	two.at(2).Apply(add(1, 'B', 100, 10))
	if one.Digest() == two.Digest() || one.Digest() == new(Set).Digest() {
		t.Error("sets with different stock locates have one digest")
	}
}

// The sample begins in mid-session: hardly any of its executions, deletions and replacements
// concern orders that it added.
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
	s := new(Set)
	type key struct {
		locate uint16
		ref    uint64
	}
	known := map[key]bool{} // references added at any time
	var unknown uint64
	for {
		msg, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		var m itch.Message
		if err := m.Parse(msg); err != nil {
			t.Fatal(err)
		}
		s.Apply(&m)
		switch m.Type {
		case 'A', 'F':
			known[key{m.Locate, m.Ref}] = true
		case 'U':
			if known[key{m.Locate, m.Ref}] {
				known[key{m.Locate, m.NewRef}] = true
			}
			fallthrough
		case 'E', 'C', 'X', 'D':
			if !known[key{m.Locate, m.Ref}] {
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

// Once a book has its size, messages do not allocate.
func TestApplyNoAllocations(t *testing.T) {
	s := new(Set)
	var ref uint64
	round := func() {
		for _, m := range []itch.Message{
			{Type: 'A', Ref: ref, Side: itch.Buy, Shares: 100, Price: itch.Price(10000 + ref%50)},
			{Type: 'E', Ref: ref, Shares: 10},
			{Type: 'U', Ref: ref, NewRef: ref + 1, Shares: 90, Price: 9000},
			{Type: 'D', Ref: ref + 1},
		} {
			m.Locate = 7
			s.Apply(&m)
		}
		ref += 2
		s.Book(7).Top()
	}
	for range 1000 {
		round()
	}
	if n := testing.AllocsPerRun(1000, round); n != 0 {
		t.Errorf("a round of messages makes %v allocations, want none", n)
	}
	if s.Book(7).Len() != 0 {
		t.Errorf("%d orders remain, want none", s.Book(7).Len())
	}
}

func TestSetBook(t *testing.T) {
	s := new(Set)
	if s.Book(3) != nil {
		t.Error("a book exists before its first message")
	}
	s.Apply(&itch.Message{Type: 'A', Locate: 3, Ref: 1, Side: itch.Sell, Shares: 5, Price: 70000})
	bid, ask := s.Book(3).Top()
	if bid != (Level{}) || ask != (Level{70000, 5, 1}) {
		t.Errorf("top of book 3 is %v %v, want an empty bid and 70000, 5, 1", bid, ask)
	}
	if stats, orders := s.Stats(); stats.Messages != 1 || orders != 1 {
		t.Errorf("statistics %+v and %d orders, want 1 message and 1 order", stats, orders)
	}
}

func BenchmarkApply(b *testing.B) {
	g := messages{newRand(b)}
	msgs := make([]*itch.Message, 1<<14)
	for i := range msgs {
		msgs[i] = g.next()
	}
	s := new(Set)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		s.Apply(msgs[i&(len(msgs)-1)])
		i++
	}
}
