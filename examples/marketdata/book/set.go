package book

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/fanfaremq/fanfare/examples/marketdata/itch"
)

// Set is the books of all stocks, by stock locate; the zero Set is empty. It is not safe for concurrent use.
type Set struct {
	books []*Book // by stock locate, nil before the first message
}

// Apply applies a message to the book of its stock locate, which it creates if needed.
func (s *Set) Apply(m *itch.Message) { s.at(m.Locate).Apply(m) }

// at returns the book of a stock locate, and creates it if needed.
func (s *Set) at(locate uint16) *Book {
	for len(s.books) <= int(locate) {
		s.books = append(s.books, nil)
	}
	if s.books[locate] == nil {
		s.books[locate] = New()
	}
	return s.books[locate]
}

// Put replaces the book of a stock locate.
func (s *Set) Put(locate uint16, b *Book) {
	s.at(locate)
	s.books[locate] = b
}

// Book returns the book of a stock locate, nil before its first message.
func (s *Set) Book(locate uint16) *Book {
	if int(locate) >= len(s.books) {
		return nil
	}
	return s.books[locate]
}

// Stats returns the sums of all books' counters and numbers of orders.
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
