// Package itch reads and writes messages of Nasdaq TotalView-ITCH 5.0, the
// order-by-order feed of the Nasdaq stock market, and the BinaryFILE framing
// in which Nasdaq publishes whole days of it.
//
// All numbers are big-endian. Every message opens with the same 11 bytes
// (specification, section 4: the first four fields of each table):
//
//	 0        1                3                5                       11
//	+--------+----------------+----------------+-----------------------+
//	| type   | stock locate   | tracking       | timestamp, ns since   |
//	| 1 byte | 2 bytes        | 2 bytes        | midnight, 6 bytes     |
//	+--------+----------------+----------------+-----------------------+
//
// Words: the stock locate is a number that stands for a symbol during one
// day; an order reference names an order for that day, over all symbols; a
// price has four implied decimal places (1234500 is $123.45).
//
// Parse methods keep no reference to the bytes they read and allocate
// nothing; Append methods allocate only when the slice they append to must
// grow. Section numbers are those of the edition in force in 2019, the year of
// the sample in testdata.
package itch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Type is the first byte of a message.
type Type byte

// The message types of TotalView-ITCH 5.0. Those with a Parse method in this
// package carry its name.
const (
	TypeSystemEvent         Type = 'S' // 4.1, SystemEvent
	TypeStockDirectory      Type = 'R' // 4.2.1, StockDirectory
	TypeTradingAction       Type = 'H' // 4.2.2
	TypeRegSHO              Type = 'Y' // 4.2.3
	TypeParticipantPosition Type = 'L' // 4.2.4
	TypeMWCBDecline         Type = 'V' // 4.2.5.1
	TypeMWCBStatus          Type = 'W' // 4.2.5.2
	TypeIPOQuoting          Type = 'K' // 4.2.6
	TypeLULDCollar          Type = 'J' // 4.2.7
	TypeOperationalHalt     Type = 'h' // 4.2.8
	TypeAddOrder            Type = 'A' // 4.3.1, AddOrder
	TypeAddOrderMPID        Type = 'F' // 4.3.2, AddOrder
	TypeOrderExecuted       Type = 'E' // 4.4.1, OrderExecuted
	TypeOrderExecutedPrice  Type = 'C' // 4.4.2, OrderExecutedPrice
	TypeOrderCancel         Type = 'X' // 4.4.3, OrderCancel
	TypeOrderDelete         Type = 'D' // 4.4.4, OrderDelete
	TypeOrderReplace        Type = 'U' // 4.4.5, OrderReplace
	TypeTrade               Type = 'P' // 4.5.1, Trade
	TypeCrossTrade          Type = 'Q' // 4.5.2
	TypeBrokenTrade         Type = 'B' // 4.5.3
	TypeImbalance           Type = 'I' // 4.6
	TypeRetailInterest      Type = 'N' // 4.7
)

func (t Type) String() string { return strconv.QuoteRune(rune(t)) }

// headerLen is the length in bytes of what all messages begin with.
const headerLen = 11

// lengths holds the exact length in bytes of each message type, 0 for types
// that this package has never heard of.
var lengths = [256]uint8{
	TypeSystemEvent:         12,
	TypeStockDirectory:      39,
	TypeTradingAction:       25,
	TypeRegSHO:              20,
	TypeParticipantPosition: 26,
	TypeMWCBDecline:         35,
	TypeMWCBStatus:          12,
	TypeIPOQuoting:          28,
	TypeLULDCollar:          35,
	TypeOperationalHalt:     21,
	TypeAddOrder:            36,
	TypeAddOrderMPID:        40,
	TypeOrderExecuted:       31,
	TypeOrderExecutedPrice:  36,
	TypeOrderCancel:         23,
	TypeOrderDelete:         19,
	TypeOrderReplace:        35,
	TypeTrade:               44,
	TypeCrossTrade:          40,
	TypeBrokenTrade:         19,
	TypeImbalance:           50,
	TypeRetailInterest:      20,
}

// Len returns the exact length in bytes of a message of type t, or 0 if the
// type is unknown.
func (t Type) Len() int { return int(lengths[t]) }

// Errors of parsing; match with errors.Is.
var (
	// ErrLength says that a message does not have the length of its type.
	ErrLength = errors.New("wrong message length")
	// ErrType says that a message has another type than the one asked for.
	ErrType = errors.New("wrong message type")
	// ErrSide says that the buy/sell indicator is neither 'B' nor 'S'.
	ErrSide = errors.New("buy/sell indicator is neither B nor S")
)

// Check reports whether msg can be a message: a known type must have exactly
// its length and a valid buy/sell indicator, an unknown one (the exchange adds
// types now and then) at least the common header.
func Check(msg []byte) error {
	if len(msg) == 0 {
		return fmt.Errorf("itch: %w: empty message", ErrLength)
	}
	t := Type(msg[0])
	if want := t.Len(); want != 0 && len(msg) != want {
		return fmt.Errorf("itch: %w: %d bytes for type %v, want %d", ErrLength, len(msg), t, want)
	}
	if len(msg) < headerLen {
		return fmt.Errorf("itch: %w: %d bytes for type %v, want at least %d", ErrLength, len(msg), t, headerLen)
	}
	switch t {
	case TypeAddOrder, TypeAddOrderMPID, TypeTrade:
		return Side(msg[sideAt]).check()
	}
	return nil
}

// sideAt is the offset of the buy/sell indicator in bytes, in all messages that have one.
const sideAt = 19

// expect is Check for a message that must have type t, of known length.
func expect(msg []byte, t Type) error {
	if err := Check(msg); err != nil || Type(msg[0]) == t {
		return err
	}
	return fmt.Errorf("itch: %w: got %v, want %v", ErrType, Type(msg[0]), t)
}

// Header is what all messages begin with.
type Header struct {
	Type      Type
	Locate    uint16        // stock locate; 0 where a message concerns no single symbol
	Tracking  uint16        // Nasdaq's own tracking number
	Timestamp time.Duration // since midnight, New York; 48 bits of nanoseconds on the wire
}

// ParseHeader reads the header of any message, whatever its type: this is
// how types without a struct of their own pass through.
func ParseHeader(msg []byte) (Header, error) {
	if err := Check(msg); err != nil {
		return Header{}, err
	}
	return header(msg), nil
}

// header reads the first headerLen bytes, which the caller has made sure of.
func header(b []byte) Header {
	return Header{
		Type:      Type(b[0]),
		Locate:    binary.BigEndian.Uint16(b[1:]),
		Tracking:  binary.BigEndian.Uint16(b[3:]),
		Timestamp: time.Duration(uint64(binary.BigEndian.Uint16(b[5:]))<<32 | uint64(binary.BigEndian.Uint32(b[7:]))),
	}
}

// append appends the header with type t, which the callers know better than
// the caller that filled in the struct.
func (h Header) append(b []byte, t Type) []byte {
	b = append(b, byte(t))
	b = binary.BigEndian.AppendUint16(b, h.Locate)
	b = binary.BigEndian.AppendUint16(b, h.Tracking)
	b = binary.BigEndian.AppendUint16(b, uint16(h.Timestamp>>32))
	return binary.BigEndian.AppendUint32(b, uint32(h.Timestamp))
}

// Symbol is a stock symbol, padded with spaces on the right.
type Symbol [8]byte

// MakeSymbol pads s; what is longer than 8 bytes is cut off.
func MakeSymbol(s string) Symbol {
	y := Symbol{' ', ' ', ' ', ' ', ' ', ' ', ' ', ' '}
	copy(y[:], s)
	return y
}

// String returns the symbol without its padding.
func (y Symbol) String() string {
	n := len(y)
	for n > 0 && y[n-1] == ' ' {
		n--
	}
	return string(y[:n])
}

// Price is in units of 1/10000 dollar (specification, section 3: Price(4)).
type Price uint32

// String returns the price in dollars with all four places.
func (p Price) String() string {
	return fmt.Sprintf("%d.%04d", p/10000, p%10000)
}

// Side is the buy/sell indicator of an order.
type Side byte

// The two sides of a book.
const (
	Buy  Side = 'B'
	Sell Side = 'S'
)

func (s Side) String() string { return string(rune(s)) }

func (s Side) check() error {
	if s != Buy && s != Sell {
		return fmt.Errorf("itch: %w: %#02x", ErrSide, byte(s))
	}
	return nil
}
