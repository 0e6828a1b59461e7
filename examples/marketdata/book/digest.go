package book

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"slices"
)

// Digest stands for the whole state of a book, or of a set of books.
type Digest [sha256.Size]byte

// String returns the digest in hexadecimal.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MarshalText makes digests readable in JSON.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (d *Digest) UnmarshalText(text []byte) error {
	b, err := hex.DecodeString(string(text))
	if err != nil {
		return err
	}
	if len(b) != len(d) {
		return hex.ErrLength
	}
	copy(d[:], b)
	return nil
}

// Digest covers every order, every level and every counter, in an order that
// does not depend on the way the book came to be. It sorts all orders: take it
// at the end, or now and then.
func (b *Book) Digest() Digest {
	w := writer{h: sha256.New()}
	refs := make([]uint64, 0, len(b.orders))
	for ref := range b.orders {
		refs = append(refs, ref)
	}
	slices.Sort(refs)
	w.uint64(uint64(len(refs)))
	for _, ref := range refs {
		o := b.orders[ref]
		w.uint64(ref)
		w.uint64(uint64(o.Side)<<32 | uint64(o.Price))
		w.uint64(uint64(o.Shares))
	}
	// The levels follow from the orders; a book whose levels have gone wrong
	// must not pass for an equal one.
	for _, s := range []*side{&b.bids, &b.asks} {
		w.uint64(uint64(len(s.levels)))
		for _, l := range s.levels {
			w.uint64(uint64(l.Price)<<32 | uint64(l.Orders))
			w.uint64(l.Shares)
		}
	}
	for _, n := range []uint64{
		b.stats.Messages, b.stats.Executed, b.stats.Unknown,
		b.stats.Duplicate, b.stats.Excess, b.stats.Empty,
	} {
		w.uint64(n)
	}
	return w.sum()
}

// Digest covers the digests of all books and their stock locates.
func (s *Set) Digest() Digest {
	w := writer{h: sha256.New()}
	for locate, b := range s.All() {
		w.uint64(uint64(locate))
		d := b.Digest()
		w.h.Write(d[:])
	}
	return w.sum()
}

// writer feeds numbers to a hash.
type writer struct {
	h   hash.Hash
	buf [8]byte
}

func (w *writer) uint64(n uint64) {
	binary.BigEndian.PutUint64(w.buf[:], n)
	w.h.Write(w.buf[:])
}

func (w *writer) sum() Digest { return Digest(w.h.Sum(nil)) }
