package itch

import "encoding/binary"

// The messages of this file leave the book of orders alone: specification,
// sections 4.1 and 4.2 (the market and its stocks) and 4.5 (trades that no
// displayed order took part in).

// Event codes of SystemEvent.
const (
	EventStartOfMessages    = 'O' // before anything else of the day
	EventStartOfSystemHours = 'S'
	EventStartOfMarketHours = 'Q'
	EventEndOfMarketHours   = 'M'
	EventEndOfSystemHours   = 'E'
	EventEndOfMessages      = 'C' // after everything else of the day
)

// SystemEvent marks the hours of the market (type 'S', section 4.1). Its stock
// locate is 0.
//
//	11 event code 1
type SystemEvent struct {
	Header
	Event byte
}

// Parse reads a message of type 'S'.
func (m *SystemEvent) Parse(b []byte) error {
	if err := expect(b, TypeSystemEvent); err != nil {
		return err
	}
	*m = SystemEvent{Header: header(b), Event: b[11]}
	return nil
}

// Append appends the message.
func (m *SystemEvent) Append(b []byte) []byte {
	return append(m.Header.append(b, TypeSystemEvent), m.Event)
}

// StockDirectory introduces a stock and its locate code for the day (type 'R',
// section 4.2.1).
//
//	11 stock 8 | 19 market category 1 | 20 financial status 1 | 21 round lot size 4 |
//	25 round lots only 1 | 26 issue classification 1 | 27 issue sub-type 2 | 29 authenticity 1 |
//	30 short sale threshold 1 | 31 IPO flag 1 | 32 LULD tier 1 | 33 ETP flag 1 |
//	34 ETP leverage factor 4 | 38 inverse indicator 1
type StockDirectory struct {
	Header
	Stock              Symbol
	MarketCategory     byte
	FinancialStatus    byte
	RoundLotSize       uint32 // shares
	RoundLotsOnly      byte
	Classification     byte
	SubType            [2]byte
	Authenticity       byte // 'P' live, 'T' test
	ShortSaleThreshold byte
	IPO                byte
	LULDTier           byte
	ETP                byte
	ETPLeverage        uint32
	Inverse            byte
}

// Parse reads a message of type 'R'.
func (m *StockDirectory) Parse(b []byte) error {
	if err := expect(b, TypeStockDirectory); err != nil {
		return err
	}
	*m = StockDirectory{
		Header:             header(b),
		Stock:              Symbol(b[11:19]),
		MarketCategory:     b[19],
		FinancialStatus:    b[20],
		RoundLotSize:       binary.BigEndian.Uint32(b[21:]),
		RoundLotsOnly:      b[25],
		Classification:     b[26],
		SubType:            [2]byte(b[27:29]),
		Authenticity:       b[29],
		ShortSaleThreshold: b[30],
		IPO:                b[31],
		LULDTier:           b[32],
		ETP:                b[33],
		ETPLeverage:        binary.BigEndian.Uint32(b[34:]),
		Inverse:            b[38],
	}
	return nil
}

// Append appends the message.
func (m *StockDirectory) Append(b []byte) []byte {
	b = m.Header.append(b, TypeStockDirectory)
	b = append(b, m.Stock[:]...)
	b = append(b, m.MarketCategory, m.FinancialStatus)
	b = binary.BigEndian.AppendUint32(b, m.RoundLotSize)
	b = append(b, m.RoundLotsOnly, m.Classification, m.SubType[0], m.SubType[1], m.Authenticity,
		m.ShortSaleThreshold, m.IPO, m.LULDTier, m.ETP)
	b = binary.BigEndian.AppendUint32(b, m.ETPLeverage)
	return append(b, m.Inverse)
}

// Trade is a match with an order that was not displayed, so no order of the
// book changes (type 'P', section 4.5.1).
//
//	11 order reference 8, always 0 | 19 side 1, always 'B' | 20 shares 4 | 24 stock 8 | 32 price 4 | 36 match number 8
type Trade struct {
	Header
	Ref    uint64
	Side   Side
	Shares uint32
	Stock  Symbol
	Price  Price
	Match  uint64
}

// Parse reads a message of type 'P'.
func (m *Trade) Parse(b []byte) error {
	if err := expect(b, TypeTrade); err != nil {
		return err
	}
	*m = Trade{
		Header: header(b),
		Ref:    binary.BigEndian.Uint64(b[11:]),
		Side:   Side(b[sideAt]),
		Shares: binary.BigEndian.Uint32(b[20:]),
		Stock:  Symbol(b[24:32]),
		Price:  Price(binary.BigEndian.Uint32(b[32:])),
		Match:  binary.BigEndian.Uint64(b[36:]),
	}
	return nil
}

// Append appends the message.
func (m *Trade) Append(b []byte) []byte {
	b = m.Header.append(b, TypeTrade)
	b = binary.BigEndian.AppendUint64(b, m.Ref)
	b = append(b, byte(m.Side))
	b = binary.BigEndian.AppendUint32(b, m.Shares)
	b = append(b, m.Stock[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(m.Price))
	return binary.BigEndian.AppendUint64(b, m.Match)
}
