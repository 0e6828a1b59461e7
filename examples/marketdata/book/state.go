package book

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/fanfaremq/fanfare/examples/marketdata/itch"
)

// Digest is a hash of the complete state of a book, or of a set of books.
type Digest [sha256.Size]byte

// String returns the digest in hexadecimal.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// Digest covers every order, level and counter. It sorts all orders, so it is not for frequent use.
func (b *Book) Digest() Digest {
	p := b.AppendState(nil)
	// The levels follow from the orders, but a book with wrong levels must have another digest.
	for _, s := range []*side{&b.bids, &b.asks} {
		p = binary.BigEndian.AppendUint64(p, uint64(len(s.levels)))
		for _, l := range s.levels {
			p = binary.BigEndian.AppendUint32(p, uint32(l.Price))
			p = binary.BigEndian.AppendUint32(p, l.Orders)
			p = binary.BigEndian.AppendUint64(p, l.Shares)
		}
	}
	return sha256.Sum256(p)
}

// The encoding of a book, big-endian:
//
//	counters of Stats, 8 bytes each | orders, sorted by reference
//
// and of an order:
//
//	reference, 8 bytes | price, 4 bytes | shares, 4 bytes | side, 1 byte
const (
	stateCounters = 6 * 8
	stateOrder    = 17
)

// AppendState appends the encoded book to p. The encoding does not depend on the history of the book.
func (b *Book) AppendState(p []byte) []byte {
	for _, n := range b.stats.fields() {
		p = binary.BigEndian.AppendUint64(p, *n)
	}
	for _, ref := range slices.Sorted(maps.Keys(b.orders)) {
		o := b.orders[ref]
		p = binary.BigEndian.AppendUint64(p, ref)
		p = binary.BigEndian.AppendUint32(p, uint32(o.Price))
		p = binary.BigEndian.AppendUint32(p, o.Shares)
		p = append(p, byte(o.Side))
	}
	return p
}

// ParseState decodes a book encoded by AppendState.
func ParseState(p []byte) (*Book, error) {
	if len(p) < stateCounters || (len(p)-stateCounters)%stateOrder != 0 {
		return nil, fmt.Errorf("%d bytes are not the state of a book", len(p))
	}
	b := New()
	var stats Stats
	for _, n := range stats.fields() {
		*n, p = binary.BigEndian.Uint64(p), p[8:]
	}
	for ; len(p) > 0; p = p[stateOrder:] {
		ref, side := binary.BigEndian.Uint64(p), itch.Side(p[16])
		if side != itch.Buy && side != itch.Sell {
			return nil, fmt.Errorf("state of a book: order %d has side %q", ref, p[16])
		}
		b.add(ref, Order{itch.Price(binary.BigEndian.Uint32(p[8:])), binary.BigEndian.Uint32(p[12:]), side})
	}
	if b.stats != (Stats{}) {
		return nil, fmt.Errorf("state of a book: %d duplicate orders, %d without shares", b.stats.Duplicate, b.stats.Empty)
	}
	b.stats = stats
	return b, nil
}
