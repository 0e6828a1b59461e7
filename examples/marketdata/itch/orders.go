package itch

import (
	"encoding/binary"
	"fmt"
)

// The messages of this file make an order book: specification, sections 4.3
// (add order) and 4.4 (modify order). Shares are always a number of shares,
// not of lots.

// AddOrder is a new order in the book, type 'A' or, where the exchange names
// the market participant, 'F' (sections 4.3.1 and 4.3.2).
//
//	11 order reference 8 | 19 side 1 | 20 shares 4 | 24 stock 8 | 32 price 4 | F: 36 attribution 4
type AddOrder struct {
	Header
	Ref    uint64
	Side   Side
	Shares uint32
	Stock  Symbol
	Price  Price
	MPID   [4]byte // market participant, of type 'F' only
}

// Parse reads a message of type 'A' or 'F'.
func (m *AddOrder) Parse(b []byte) error {
	attributed := len(b) > 0 && Type(b[0]) == TypeAddOrderMPID
	want := TypeAddOrder
	if attributed {
		want = TypeAddOrderMPID
	}
	if err := expect(b, want); err != nil {
		return err
	}
	*m = AddOrder{
		Header: header(b),
		Ref:    binary.BigEndian.Uint64(b[11:]),
		Side:   Side(b[sideAt]),
		Shares: binary.BigEndian.Uint32(b[20:]),
		Stock:  Symbol(b[24:32]),
		Price:  Price(binary.BigEndian.Uint32(b[32:])),
	}
	if attributed {
		m.MPID = [4]byte(b[36:40])
	}
	return nil
}

// Append appends the message: type 'F' if m.Type says so, otherwise 'A'.
func (m *AddOrder) Append(b []byte) []byte {
	t := TypeAddOrder
	if m.Type == TypeAddOrderMPID {
		t = TypeAddOrderMPID
	}
	b = m.Header.append(b, t)
	b = binary.BigEndian.AppendUint64(b, m.Ref)
	b = append(b, byte(m.Side))
	b = binary.BigEndian.AppendUint32(b, m.Shares)
	b = append(b, m.Stock[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(m.Price))
	if t == TypeAddOrderMPID {
		b = append(b, m.MPID[:]...)
	}
	return b
}

// OrderExecuted takes shares off an order at the order's own price (type 'E',
// section 4.4.1).
//
//	11 order reference 8 | 19 executed shares 4 | 23 match number 8
type OrderExecuted struct {
	Header
	Ref    uint64
	Shares uint32
	Match  uint64
}

// Parse reads a message of type 'E'.
func (m *OrderExecuted) Parse(b []byte) error {
	if err := expect(b, TypeOrderExecuted); err != nil {
		return err
	}
	*m = OrderExecuted{
		Header: header(b),
		Ref:    binary.BigEndian.Uint64(b[11:]),
		Shares: binary.BigEndian.Uint32(b[19:]),
		Match:  binary.BigEndian.Uint64(b[23:]),
	}
	return nil
}

// Append appends the message.
func (m *OrderExecuted) Append(b []byte) []byte {
	b = m.Header.append(b, TypeOrderExecuted)
	b = binary.BigEndian.AppendUint64(b, m.Ref)
	b = binary.BigEndian.AppendUint32(b, m.Shares)
	return binary.BigEndian.AppendUint64(b, m.Match)
}

// OrderExecutedPrice takes shares off an order at another price than the
// order's, as in a cross (type 'C', section 4.4.2).
//
//	11 order reference 8 | 19 executed shares 4 | 23 match number 8 | 31 printable 1 | 32 price 4
type OrderExecutedPrice struct {
	Header
	Ref       uint64
	Shares    uint32
	Match     uint64
	Printable byte  // 'Y', or 'N' where volume must not count it twice
	Price     Price // of the execution
}

// Parse reads a message of type 'C'.
func (m *OrderExecutedPrice) Parse(b []byte) error {
	if err := expect(b, TypeOrderExecutedPrice); err != nil {
		return err
	}
	*m = OrderExecutedPrice{
		Header:    header(b),
		Ref:       binary.BigEndian.Uint64(b[11:]),
		Shares:    binary.BigEndian.Uint32(b[19:]),
		Match:     binary.BigEndian.Uint64(b[23:]),
		Printable: b[31],
		Price:     Price(binary.BigEndian.Uint32(b[32:])),
	}
	return nil
}

// Append appends the message.
func (m *OrderExecutedPrice) Append(b []byte) []byte {
	b = m.Header.append(b, TypeOrderExecutedPrice)
	b = binary.BigEndian.AppendUint64(b, m.Ref)
	b = binary.BigEndian.AppendUint32(b, m.Shares)
	b = binary.BigEndian.AppendUint64(b, m.Match)
	b = append(b, m.Printable)
	return binary.BigEndian.AppendUint32(b, uint32(m.Price))
}

// OrderCancel takes shares off an order; the rest of it stays (type 'X',
// section 4.4.3).
//
//	11 order reference 8 | 19 cancelled shares 4
type OrderCancel struct {
	Header
	Ref    uint64
	Shares uint32
}

// Parse reads a message of type 'X'.
func (m *OrderCancel) Parse(b []byte) error {
	if err := expect(b, TypeOrderCancel); err != nil {
		return err
	}
	*m = OrderCancel{
		Header: header(b),
		Ref:    binary.BigEndian.Uint64(b[11:]),
		Shares: binary.BigEndian.Uint32(b[19:]),
	}
	return nil
}

// Append appends the message.
func (m *OrderCancel) Append(b []byte) []byte {
	b = m.Header.append(b, TypeOrderCancel)
	b = binary.BigEndian.AppendUint64(b, m.Ref)
	return binary.BigEndian.AppendUint32(b, m.Shares)
}

// OrderDelete takes all that is left of an order out of the book (type 'D',
// section 4.4.4).
//
//	11 order reference 8
type OrderDelete struct {
	Header
	Ref uint64
}

// Parse reads a message of type 'D'.
func (m *OrderDelete) Parse(b []byte) error {
	if err := expect(b, TypeOrderDelete); err != nil {
		return err
	}
	*m = OrderDelete{Header: header(b), Ref: binary.BigEndian.Uint64(b[11:])}
	return nil
}

// Append appends the message.
func (m *OrderDelete) Append(b []byte) []byte {
	b = m.Header.append(b, TypeOrderDelete)
	return binary.BigEndian.AppendUint64(b, m.Ref)
}

// OrderReplace puts a new order in the place of an old one, on the same side
// of the same stock (type 'U', section 4.4.5).
//
//	11 old reference 8 | 19 new reference 8 | 27 shares 4 | 31 price 4
type OrderReplace struct {
	Header
	OldRef uint64
	NewRef uint64
	Shares uint32
	Price  Price
}

// Parse reads a message of type 'U'.
func (m *OrderReplace) Parse(b []byte) error {
	if err := expect(b, TypeOrderReplace); err != nil {
		return err
	}
	*m = OrderReplace{
		Header: header(b),
		OldRef: binary.BigEndian.Uint64(b[11:]),
		NewRef: binary.BigEndian.Uint64(b[19:]),
		Shares: binary.BigEndian.Uint32(b[27:]),
		Price:  Price(binary.BigEndian.Uint32(b[31:])),
	}
	return nil
}

// Append appends the message.
func (m *OrderReplace) Append(b []byte) []byte {
	b = m.Header.append(b, TypeOrderReplace)
	b = binary.BigEndian.AppendUint64(b, m.OldRef)
	b = binary.BigEndian.AppendUint64(b, m.NewRef)
	b = binary.BigEndian.AppendUint32(b, m.Shares)
	return binary.BigEndian.AppendUint32(b, uint32(m.Price))
}

// Stock returns the symbol that a message names, and whether its type names
// one at all: executions, cancels, deletes and replaces carry the stock locate
// only.
func Stock(msg []byte) (Symbol, bool, error) {
	if err := Check(msg); err != nil {
		return Symbol{}, false, err
	}
	at := stockAt[msg[0]]
	if at == 0 {
		return Symbol{}, false, nil
	}
	if len(msg) < int(at)+len(Symbol{}) {
		return Symbol{}, false, fmt.Errorf("itch: %w: no room for a stock", ErrLength)
	}
	return Symbol(msg[at:]), true, nil
}

// stockAt is the offset of the stock field in bytes, 0 for types without one.
var stockAt = [256]uint8{
	TypeStockDirectory:      11,
	TypeTradingAction:       11,
	TypeRegSHO:              11,
	TypeParticipantPosition: 15,
	TypeIPOQuoting:          11,
	TypeLULDCollar:          11,
	TypeOperationalHalt:     11,
	TypeAddOrder:            24,
	TypeAddOrderMPID:        24,
	TypeTrade:               24,
	TypeCrossTrade:          19,
	TypeImbalance:           28,
	TypeRetailInterest:      11,
}
