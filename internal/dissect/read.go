package dissect

import (
	"encoding/binary"
	"errors"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// Value is a field of a packet with its value. Bytes point into the packet.
type Value struct {
	Field  *Field
	At     int         // offset in the packet
	Len    int         // bytes
	Uint   uint64      // of Uint and Flag
	Bytes  []byte      // of Text and Bytes
	Uints  []uint64    // of Uints
	Chunks [][]byte    // of Chunks
	Parts  [][]Value   // of Parts and One
	Pairs  [][2]uint64 // of Ranges
}

// Packet is a parsed packet.
type Packet struct {
	Type   wire.Type
	Header []Value
	Fields []Value // as far as they can be parsed
	Whole  bool    // all fields could be parsed
	// Err says why receivers refuse the packet, as an error of package wire.
	Err error
}

// Read parses a packet. A damaged packet is parsed up to the damage. The size of the packet bounds the memory.
func Read(b []byte) Packet {
	var p Packet
	p.Err = Check(b)
	r := reader{b: b}
	var ok bool
	if p.Header, ok = r.part(Header, len(b)); !ok || errors.Is(p.Err, wire.ErrForeign) {
		return p
	}
	p.Type = wire.Type(b[3])
	// In other versions only the header and the hello are known: §18.1.
	if body := BodyOf(b); body != nil && (b[2] == wire.Version || p.Type == wire.TypeHello) {
		r.at = 0
		p.Fields, p.Whole = r.part(body, len(b))
	}
	return p
}

// Check returns why receivers refuse a packet, if the packet alone shows it, or nil. docs/protocol §13.1, §13.3.
func Check(b []byte) error {
	h, err := wire.ParseHeader(b)
	if err != nil {
		return err
	}
	if err := wire.Verify(b, false); err != nil {
		return err
	}
	switch h.Type {
	case wire.TypeData:
		_, err = wire.ParseData(b)
	case wire.TypeHeartbeat:
		_, err = wire.ParseHeartbeat(b)
	case wire.TypeNAK, wire.TypeNCF, wire.TypeGone:
		_, err = wire.ParseRanges(b)
	case wire.TypeStatus:
		_, err = wire.ParseStatus(b)
	case wire.TypeHello:
		_, err = wire.ParseHello(b)
	case wire.TypeReply:
		_, err = wire.ParseReply(b)
	case wire.TypeRecall:
		_, err = wire.ParseRecall(b)
	}
	return err
}

// reader reads the parts of b in order.
type reader struct {
	b  []byte
	at int
}

// part reads a part that ends before the byte end; ok is false if it is truncated or damaged.
func (r *reader) part(p *Part, end int) (values []Value, ok bool) {
	start := r.at
	if end-start < p.Len {
		return nil, false
	}
	r.at += p.Len
	for i := range p.Fields {
		if f := &p.Fields[i]; f.At != Behind {
			v := Value{Field: f, At: start + f.At, Len: f.Size}
			v.fixed(r.b[v.At:][:f.Size], count(values, f.Count))
			values = append(values, v)
		}
	}
	if p.Body != "" {
		n := count(values, p.Body)
		if n > uint64(end-r.at) {
			return values, false
		}
		end = r.at + int(n)
	}
	for i := range p.Fields {
		f := &p.Fields[i]
		if f.At != Behind || f.When != 0 && f.When != values[0].Uint || f.With != 0 && wire.Flags(r.b[4])&f.With == 0 {
			continue
		}
		v := Value{Field: f, At: r.at}
		ok := r.variable(&v, end, count(values, f.Count))
		v.Len = r.at - v.At
		values = append(values, v)
		if !ok {
			return values, false
		}
	}
	if p.Body != "" {
		r.at = end // also for an unknown kind
	}
	return values, true
}

// count returns the value of the field with the name.
func count(values []Value, name string) uint64 {
	for i := range values {
		if values[i].Field.Name == name && name != "" {
			return values[i].Uint
		}
	}
	return 0
}

// fixed reads a field at a fixed offset.
func (v *Value) fixed(b []byte, count uint64) {
	switch v.Field.Kind {
	case Text:
		v.Bytes = b[:min(count, uint64(len(b)))]
	case Bytes:
		v.Bytes = b
	case Flag:
		if uint64(b[0])&v.Field.Mask != 0 {
			v.Uint = 1
		}
	default:
		v.Uint = uintOf(b)
	}
}

func uintOf(b []byte) (x uint64) {
	for i := len(b) - 1; i >= 0; i-- {
		x = x<<8 | uint64(b[i])
	}
	return x
}

// variable reads a field that follows the previous one.
func (r *reader) variable(v *Value, end int, count uint64) bool {
	f := v.Field
	left := r.b[r.at:end]
	switch f.Kind {
	case Uint:
		if len(left) < f.Size {
			return false
		}
		v.Uint = uintOf(left[:f.Size])
		r.at += f.Size
	case Text:
		if f.Count == "" {
			count = uint64(len(left))
		}
		if count > uint64(len(left)) {
			return false
		}
		v.Bytes = left[:count]
		r.at += int(count)
	case Bytes:
		v.Bytes = left
		r.at = end
	case Uints:
		if count*uint64(f.Size) > uint64(len(left)) {
			return false
		}
		for i := range int(count) {
			v.Uints = append(v.Uints, uintOf(left[i*f.Size:][:f.Size]))
		}
		r.at += int(count) * f.Size
	case Chunks:
		return r.chunks(v, end)
	case Ranges:
		return r.ranges(v, end, count)
	case One:
		x, ok := r.part(f.Part, end)
		v.Parts = append(v.Parts, x)
		return ok
	case Parts:
		return r.parts(v, end, count)
	}
	return true
}

func (r *reader) chunks(v *Value, end int) bool {
	size := v.Field.Size
	for r.at < end {
		if end-r.at < size {
			return false
		}
		n := int(uintOf(r.b[r.at:][:size]))
		if n > end-r.at-size {
			return false
		}
		v.Chunks = append(v.Chunks, r.b[r.at+size:][:n])
		r.at += size + n
	}
	return true
}

func (r *reader) parts(v *Value, end int, count uint64) bool {
	counted := v.Field.Count != ""
	for n := uint64(0); ; n++ {
		if counted && n == count || !counted && (r.at == end || v.Field.Part.Body != "" && r.b[r.at] == 0) {
			return true
		}
		x, ok := r.part(v.Field.Part, end)
		if x != nil {
			v.Parts = append(v.Parts, x)
		}
		if !ok {
			return false
		}
	}
}

// ranges reads pairs of varints; "base" is the sum so far. docs/protocol §2.15.
func (r *reader) ranges(v *Value, end int, count uint64) bool {
	at := binary.LittleEndian.Uint64(r.b[40:])
	for range count {
		skip, n := binary.Uvarint(r.b[r.at:end])
		if n <= 0 {
			return false
		}
		size, m := binary.Uvarint(r.b[r.at+n : end])
		if m <= 0 {
			return false
		}
		r.at += n + m
		v.Pairs = append(v.Pairs, [2]uint64{at + skip, size})
		at += skip + size
	}
	return true
}
