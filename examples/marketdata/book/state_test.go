package book

import (
	"bytes"
	"testing"
)

// A decoded book has the digest of the original, and develops in the same way. Invalid encodings are errors.
func TestState(t *testing.T) {
	g := messages{newRand(t)}
	b := New()
	for i := range 2000 {
		b.Apply(g.next())
		if i%100 != 0 {
			continue
		}
		got, err := ParseState(b.AppendState(nil))
		if err != nil || got.Digest() != b.Digest() {
			t.Fatalf("state after %d messages: error %v, or another digest than the book's", i, err)
		}
		for range 50 {
			msg := g.next()
			b.Apply(msg)
			got.Apply(msg)
			if got.Digest() != b.Digest() {
				t.Fatal("they develop differently")
			}
		}
	}
	small := New()
	small.add(7, Order{100, 5, 'B'})
	state := small.AppendState(nil)
	for n := range state {
		if _, err := ParseState(state[:n]); err == nil && n != stateCounters {
			t.Errorf("ParseState accepts a state of %d bytes, want an error", n)
		}
	}
	order := state[stateCounters:]
	for name, bad := range map[string][]byte{
		"an order twice": append(bytes.Clone(state), order...),
		"no side":        append(bytes.Clone(state[:len(state)-1]), 'X'),
		"no shares":      append(append(bytes.Clone(state[:stateCounters+12]), 0, 0, 0, 0), 'B'),
	} {
		if _, err := ParseState(bad); err == nil {
			t.Errorf("ParseState accepted %s, want an error", name)
		}
	}
}

// For any bytes ParseState returns an error, or a book whose encoding equals them.
func FuzzState(f *testing.F) {
	b := New()
	b.add(7, Order{100, 5, 'B'})
	b.add(8, Order{101, 6, 'S'})
	f.Add(b.AppendState(nil))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, p []byte) {
		b, err := ParseState(p)
		if err != nil {
			return
		}
		again, err := ParseState(b.AppendState(nil))
		if err != nil || again.Digest() != b.Digest() {
			t.Fatal(err)
		}
	})
}
