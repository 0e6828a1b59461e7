package book

import (
	"encoding/binary"
	"fmt"

	"github.com/fanfaremq/fanfare/examples/marketdata/itch"
)

// A book as bytes, big-endian:
//
//	counters of Stats, 8 bytes each | orders
//
// and an order
//
//	reference, 8 bytes | price, 4 bytes | shares, 4 bytes | side, 1 byte
const (
	stateCounters = 6 * 8
	stateOrder    = 17
)

// AppendState appends all of the book to p, for ParseState.
func (b *Book) AppendState(p []byte) []byte {
	for _, n := range b.stats.fields() {
		p = binary.BigEndian.AppendUint64(p, *n)
	}
	for ref, o := range b.orders {
		p = binary.BigEndian.AppendUint64(p, ref)
		p = binary.BigEndian.AppendUint32(p, uint32(o.Price))
		p = binary.BigEndian.AppendUint32(p, o.Shares)
		p = append(p, byte(o.Side))
	}
	return p
}

// ParseState makes the book that AppendState wrote.
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
			return nil, fmt.Errorf("state of a book: order %d is on side %q", ref, p[16])
		}
		b.Add(ref, side, itch.Price(binary.BigEndian.Uint32(p[8:])), binary.BigEndian.Uint32(p[12:]))
	}
	if b.stats != (Stats{}) {
		return nil, fmt.Errorf("state of a book: %d orders twice, %d of no shares", b.stats.Duplicate, b.stats.Empty)
	}
	b.stats = stats
	return b, nil
}

// fields are the counters, in the order of a state.
func (s *Stats) fields() [6]*uint64 {
	return [...]*uint64{&s.Messages, &s.Executed, &s.Unknown, &s.Duplicate, &s.Excess, &s.Empty}
}
