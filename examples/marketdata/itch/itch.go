// Package itch reads and writes messages of Nasdaq TotalView-ITCH 5.0, the order-by-order feed of the Nasdaq stock
// market, and the BinaryFILE framing in which Nasdaq publishes whole days of it.
//
// All numbers are big-endian. Every message begins with the same 11 bytes (specification, section
// 4: the first four fields of each table):
//
//	 0        1                3                5                       11
//	+--------+----------------+----------------+-----------------------+
//	| type   | stock locate   | tracking       | timestamp, ns since   |
//	| 1 byte | 2 bytes        | 2 bytes        | midnight, 6 bytes     |
//	+--------+----------------+----------------+-----------------------+
//
// Terms: the stock locate is a number for a symbol, valid for one day; an order reference identifies an
// order during that day, over all symbols; a price has four implied decimal places (1234500 is $123.45).
//
// Section numbers are those of the edition in force in 2019, the year of the sample in testdata.
package itch

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Type is the first byte of a message.
type Type byte

// The message types that this package supports with their fields.
const (
	TypeSystemEvent        Type = 'S'
	TypeStockDirectory     Type = 'R'
	TypeAddOrder           Type = 'A'
	TypeAddOrderMPID       Type = 'F' // names the market participant
	TypeOrderExecuted      Type = 'E'
	TypeOrderExecutedPrice Type = 'C' // at another price than that of the order, as in a cross
	TypeOrderCancel        Type = 'X' // of a part of an order
	TypeOrderDelete        Type = 'D'
	TypeOrderReplace       Type = 'U' // on the same side of the same stock
	TypeTrade              Type = 'P' // with a hidden order
)

func (t Type) String() string { return strconv.QuoteRune(rune(t)) }

// headerLen is the length of the common header, in bytes.
const headerLen = 11

// types holds for each type its exact length in bytes, 0 if unknown, and the offset of the stock, 0 if none.
var types = [256]struct{ len, stock uint8 }{
	TypeSystemEvent:        {12, 0},  // section 4.1
	TypeStockDirectory:     {39, 11}, // 4.2.1
	'H':                    {25, 11}, // 4.2.2, trading action
	'Y':                    {20, 11}, // 4.2.3, short sale restriction
	'L':                    {26, 15}, // 4.2.4, participant position
	'V':                    {35, 0},  // 4.2.5.1, levels of the market-wide circuit breaker
	'W':                    {12, 0},  // 4.2.5.2, its status
	'K':                    {28, 11}, // 4.2.6, quoting period of a new stock
	'J':                    {35, 11}, // 4.2.7, collar of an auction
	'h':                    {21, 11}, // 4.2.8, operational halt
	TypeAddOrder:           {36, 24}, // 4.3.1
	TypeAddOrderMPID:       {40, 24}, // 4.3.2
	TypeOrderExecuted:      {31, 0},  // 4.4.1
	TypeOrderExecutedPrice: {36, 0},  // 4.4.2
	TypeOrderCancel:        {23, 0},  // 4.4.3
	TypeOrderDelete:        {19, 0},  // 4.4.4
	TypeOrderReplace:       {35, 0},  // 4.4.5
	TypeTrade:              {44, 24}, // 4.5.1
	'Q':                    {40, 19}, // 4.5.2, cross trade
	'B':                    {19, 0},  // 4.5.3, broken trade
	'I':                    {50, 28}, // 4.6, imbalance before an auction
	'N':                    {20, 11}, // 4.7, retail interest
}

// Errors of parsing; match with errors.Is.
var (
	// ErrLength: a message does not have the length of its type.
	ErrLength = errors.New("wrong message length")
	// ErrSide: the buy/sell indicator is neither 'B' nor 'S'.
	ErrSide = errors.New("buy/sell indicator is neither B nor S")
)

// Check checks whether msg is plausible: a known type must have exactly its length and a valid buy/sell
// indicator, an unknown one (the exchange sometimes adds types) at least the common header.
func Check(msg []byte) error {
	if len(msg) == 0 {
		return fmt.Errorf("itch: %w: empty message", ErrLength)
	}
	t := Type(msg[0])
	if want := int(types[t].len); want != 0 && len(msg) != want {
		return fmt.Errorf("itch: %w: %d bytes for type %v, want %d", ErrLength, len(msg), t, want)
	}
	if len(msg) < headerLen {
		return fmt.Errorf("itch: %w: %d bytes for type %v, want at least %d", ErrLength, len(msg), t, headerLen)
	}
	switch t {
	case TypeAddOrder, TypeAddOrderMPID, TypeTrade:
		if s := Side(msg[sideAt]); s != Buy && s != Sell {
			return fmt.Errorf("itch: %w: %#02x", ErrSide, byte(s))
		}
	}
	return nil
}

// sideAt is the offset of the buy/sell indicator in bytes, in all messages that have one.
const sideAt = 19

// Symbol is a stock symbol, padded with spaces on the right.
type Symbol [8]byte

// MakeSymbol pads s, and truncates it to 8 bytes.
func MakeSymbol(s string) Symbol {
	y := Symbol{' ', ' ', ' ', ' ', ' ', ' ', ' ', ' '}
	copy(y[:], s)
	return y
}

// String returns the symbol without its padding.
func (y Symbol) String() string { return strings.TrimRight(string(y[:]), " ") }

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
