package book

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/fanfaremq/fanfare/examples/marketdata/itch"
)

// Set is the books of all stocks, by stock locate; the zero Set has none. It is for one goroutine.
type Set struct {
	books []*Book // by stock locate, nil where nothing was applied yet
}

// Apply applies a message to the book of its stock locate, which it makes if there is none.
func (s *Set) Apply(m *itch.Message) { s.at(m.Locate).Apply(m) }

// at returns the book of a stock locate, and makes it if there is none.
func (s *Set) at(locate uint16) *Book {
	for len(s.books) <= int(locate) {
		s.books = append(s.books, nil)
	}
	if s.books[locate] == nil {
		s.books[locate] = New()
	}
	return s.books[locate]
}

// Put puts a book in the place of what the set has of its stock locate.
func (s *Set) Put(locate uint16, b *Book) {
	s.at(locate)
	s.books[locate] = b
}

// Book returns the book of a stock locate, nil if nothing was applied to it.
func (s *Set) Book(locate uint16) *Book {
	if int(locate) >= len(s.books) {
		return nil
	}
	return s.books[locate]
}

// Stats returns the sum of the counters of all books, and of their orders.
func (s *Set) Stats() (sum Stats, orders int) {
	for _, b := range s.books {
		if b == nil {
			continue
		}
		for i, n := range b.stats.fields() {
			*sum.fields()[i] += *n
		}
		orders += b.Len()
	}
	return sum, orders
}

// Digest covers the digests of all books and their stock locates.
func (s *Set) Digest() Digest {
	var p []byte
	for locate, b := range s.books {
		if b != nil {
			d := b.Digest()
			p = append(binary.BigEndian.AppendUint16(p, uint16(locate)), d[:]...)
		}
	}
	return sha256.Sum256(p)
}
