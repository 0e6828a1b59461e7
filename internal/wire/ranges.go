package wire

import (
	"encoding/binary"
	"time"
)

// NAK (to the publisher), NCF and Gone (to the group), after the common header:
//
//	+---------------------------------------------------------------+
//	|          receiver id (NAK), zero (NCF and Gone)               |  32
//	+---------------------------------------------------------------+
//	|                             base                              |  40
//	+---------------+-------+-------+-------------------------------+
//	|    ranges     |reason |   0   |           wait, us            |  48
//	+---------------+-------+-------+-------------------------------+
//	| ranges ...                                                    |  56
//
// Each range is two unsigned varints (7 bits a byte, low first): the number of sequences to skip from the end of the
// range before it (from base for the first), and the number of sequences in the range, at least one. So all gaps of a
// window fit one packet: an isolated loss takes two bytes.
const RangesHeaderLen = 56

// Reason is the reason for an NCF or a Gone.
type Reason uint8

const (
	// ReasonNone: a NAK.
	ReasonNone Reason = 0
	// ReasonQueued (NCF): the repair waits for the repair budget; send the NAK again after Wait.
	ReasonQueued Reason = 1
	// ReasonOverwritten (Gone): the packets have left the publisher's window.
	ReasonOverwritten Reason = 2
)

// Ranges is a parsed NAK, NCF or Gone.
type Ranges struct {
	Receiver uint64
	Reason   Reason
	Wait     time.Duration
	Count    int
	End      uint64 // of the last range
	at       uint64
	b        []byte
}

// RangesBuilder appends a NAK, NCF or Gone, range by range.
type RangesBuilder struct {
	b     []byte
	start int // of the packet, in b
	end   uint64
	count int
	limit int // maximum size of the packet in bytes
}

// Begin starts a packet of type t in b, of at most limit bytes.
func (w *RangesBuilder) Begin(b []byte, h Header, t Type, receiver, base uint64, reason Reason,
	wait time.Duration, limit int) {
	h.Type = t
	w.start = len(b)
	b, p := extend(b, RangesHeaderLen)
	h.Put(p)
	binary.LittleEndian.PutUint64(p[32:], receiver)
	binary.LittleEndian.PutUint64(p[40:], base)
	p[50] = byte(reason)
	binary.LittleEndian.PutUint32(p[52:], clamp32(wait.Microseconds()))
	w.b, w.end, w.count, w.limit = b, base, 0, limit
}

// Add appends the range [first, first+n), which is after all earlier ones. It reports false, and adds nothing, if the
// packet is full.
func (w *RangesBuilder) Add(first, n uint64) bool {
	if first < w.end || n == 0 {
		panic("wire: ranges out of order")
	}
	if w.count == 1<<16-1 || len(w.b)-w.start+uvarintLen(first-w.end)+uvarintLen(n) > w.limit {
		return false
	}
	w.b = binary.AppendUvarint(w.b, first-w.end)
	w.b = binary.AppendUvarint(w.b, n)
	w.end = first + n
	w.count++
	return true
}

// Count returns the number of ranges so far.
func (w *RangesBuilder) Count() int { return w.count }

// Finish returns the buffer with the complete packet.
func (w *RangesBuilder) Finish() []byte {
	binary.LittleEndian.PutUint16(w.b[w.start+48:], uint16(w.count))
	return w.b
}

func uvarintLen(v uint64) int {
	n := 1
	for v >= 0x80 {
		v >>= 7
		n++
	}
	return n
}

// ParseRanges parses the NAK, NCF or Gone b after ParseHeader, and checks all of it. docs/protocol §13.3.
func ParseRanges(b []byte) (Ranges, error) {
	if len(b) < RangesHeaderLen {
		return Ranges{}, ErrShort
	}
	r := Ranges{
		Receiver: binary.LittleEndian.Uint64(b[32:]),
		Reason:   Reason(b[50]),
		Wait:     time.Duration(binary.LittleEndian.Uint32(b[52:])) * time.Microsecond,
		Count:    int(binary.LittleEndian.Uint16(b[48:])),
		at:       binary.LittleEndian.Uint64(b[40:]),
		b:        b[RangesHeaderLen:],
	}
	if r.at >= MaxSeq || r.Count == 0 {
		return Ranges{}, ErrMalformed
	}
	check := r
	for range r.Count {
		if err := check.advance(nil, nil); err != nil {
			return Ranges{}, err
		}
	}
	r.End = check.at
	return r, nil
}

// Next splits the first range off r; ok is false if there is none.
func (r *Ranges) Next() (first, n uint64, ok bool) {
	if r.Count == 0 || r.advance(&first, &n) != nil {
		return 0, 0, false
	}
	return first, n, true
}

func (r *Ranges) advance(first, n *uint64) error {
	skip, k := binary.Uvarint(r.b)
	if k == 0 {
		return ErrShort
	}
	if k < 0 || skip >= MaxSeq {
		return ErrMalformed
	}
	count, m := binary.Uvarint(r.b[k:])
	if m == 0 {
		return ErrShort
	}
	if m < 0 || count == 0 || count >= MaxSeq || r.at+skip+count > MaxSeq {
		return ErrMalformed
	}
	if first != nil {
		*first, *n = r.at+skip, count
	}
	r.at += skip + count
	r.b = r.b[k+m:]
	r.Count--
	return nil
}
