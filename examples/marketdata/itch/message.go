package itch

import (
	"encoding/binary"
	"time"
)

// Message is a message with the fields needed for order books and for the messages of package feed. Of other
// types Parse reads the first four fields and the stock. Fields by type, with their offsets in bytes:
//
//	S       11 event                                                           (section 4.1)
//	R       11 stock | 19 listing, 20 bytes                                    (4.2.1)
//	A, F    11 ref | 19 side | 20 shares | 24 stock | 32 price | F: 36 MPID     (4.3)
//	E, C    11 ref | 19 shares | 23 match | C: 31 printable | C: 32 price       (4.4.1, 4.4.2)
//	X       11 ref | 19 shares                                                 (4.4.3)
//	D       11 ref                                                             (4.4.4)
//	U       11 ref | 19 new ref | 27 shares | 31 price                         (4.4.5)
//	P       11 ref | 19 side | 20 shares | 24 stock | 32 price | 36 match      (4.5.1)
type Message struct {
	Type      Type
	Locate    uint16        // stock locate; 0 if no single symbol is concerned
	Tracking  uint16        // Nasdaq's internal tracking number
	Timestamp time.Duration // since midnight, New York; 48 bits of nanoseconds on the wire

	Event     byte     // one of the codes below
	Stock     Symbol   // zero if the type has none
	Listing   [20]byte // of a stock: market category and all following fields
	Ref       uint64   // of the order
	NewRef    uint64   // of the replacing order
	Side      Side
	Shares    uint32 // a number of shares, not of lots
	Price     Price
	MPID      [4]byte // market participant
	Match     uint64  // number of the trade
	Printable byte    // 'Y', or 'N' if the trade must not be counted twice in the volume
}

// Codes of system events.
const (
	EventStartOfMessages    = 'O' // before everything else of the day
	EventStartOfMarketHours = 'Q'
	EventEndOfMarketHours   = 'M'
	EventEndOfMessages      = 'C' // after everything else of the day
)

// Parse parses a message of any type. It keeps no reference to b.
func (m *Message) Parse(b []byte) error {
	if err := Check(b); err != nil {
		return err
	}
	be := binary.BigEndian
	*m = Message{
		Type:      Type(b[0]),
		Locate:    be.Uint16(b[1:]),
		Tracking:  be.Uint16(b[3:]),
		Timestamp: time.Duration(uint64(be.Uint16(b[5:]))<<32 | uint64(be.Uint32(b[7:]))),
	}
	if at := types[m.Type].stock; at != 0 {
		m.Stock = Symbol(b[at:])
	}
	switch m.Type {
	case TypeSystemEvent:
		m.Event = b[11]
		return nil
	case TypeStockDirectory:
		m.Listing = [20]byte(b[19:])
		return nil
	case TypeAddOrder, TypeAddOrderMPID, TypeTrade:
		m.Side, m.Shares, m.Price = Side(b[sideAt]), be.Uint32(b[20:]), Price(be.Uint32(b[32:]))
	case TypeOrderExecuted, TypeOrderExecutedPrice:
		m.Shares, m.Match = be.Uint32(b[19:]), be.Uint64(b[23:])
	case TypeOrderCancel:
		m.Shares = be.Uint32(b[19:])
	case TypeOrderReplace:
		m.NewRef, m.Shares, m.Price = be.Uint64(b[19:]), be.Uint32(b[27:]), Price(be.Uint32(b[31:]))
	case TypeOrderDelete:
	default:
		return nil
	}
	m.Ref = be.Uint64(b[11:])
	switch m.Type {
	case TypeAddOrderMPID:
		m.MPID = [4]byte(b[36:])
	case TypeOrderExecutedPrice:
		m.Printable, m.Price = b[31], Price(be.Uint32(b[32:]))
	case TypeTrade:
		m.Match = be.Uint64(b[36:])
	}
	return nil
}

// Append appends a message of one of the types above.
func (m *Message) Append(b []byte) []byte {
	be := binary.BigEndian
	b = append(b, byte(m.Type))
	b = be.AppendUint16(b, m.Locate)
	b = be.AppendUint16(b, m.Tracking)
	b = be.AppendUint16(b, uint16(m.Timestamp>>32))
	b = be.AppendUint32(b, uint32(m.Timestamp))
	switch m.Type {
	case TypeSystemEvent:
		return append(b, m.Event)
	case TypeStockDirectory:
		return append(append(b, m.Stock[:]...), m.Listing[:]...)
	}
	b = be.AppendUint64(b, m.Ref)
	switch m.Type {
	case TypeAddOrder, TypeAddOrderMPID, TypeTrade:
		b = be.AppendUint32(append(b, byte(m.Side)), m.Shares)
		b = be.AppendUint32(append(b, m.Stock[:]...), uint32(m.Price))
	case TypeOrderExecuted, TypeOrderExecutedPrice, TypeOrderCancel:
		b = be.AppendUint32(b, m.Shares)
	case TypeOrderReplace:
		b = be.AppendUint64(b, m.NewRef)
		b = be.AppendUint32(b, m.Shares)
		b = be.AppendUint32(b, uint32(m.Price))
	}
	switch m.Type {
	case TypeAddOrderMPID:
		b = append(b, m.MPID[:]...)
	case TypeOrderExecuted, TypeOrderExecutedPrice, TypeTrade:
		b = be.AppendUint64(b, m.Match)
	}
	if m.Type == TypeOrderExecutedPrice {
		b = be.AppendUint32(append(b, m.Printable), uint32(m.Price))
	}
	return b
}
