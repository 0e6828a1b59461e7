package dissect

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// Shown is the number of elements of a list that Text writes.
const Shown = 4

// Names has the names of some topics.
type Names interface {
	// TopicName returns the name of the topic with the id, or "" if unknown.
	TopicName(id uint64) string
}

// Text appends the fields of a packet to b as name=value, in wire order, on one line. Of messages and padding only the
// sizes are written. Text from the packet is quoted.
func (p *Packet) Text(b []byte, names Names) []byte {
	b = appendValues(b, p.header(), names)
	if len(p.Fields) > 0 {
		b = appendValues(append(b, ' '), p.Fields, names)
	}
	return b
}

// header returns the packet's header, with the names of flags for packets of its type.
func (p *Packet) header() []Value {
	all := slices.Clone(p.Header)
	for i := range all {
		if f := all[i].Field; f.Bits != nil {
			of := *f
			of.Bits = slices.DeleteFunc(slices.Clone(f.Bits), func(c Code) bool { return c.In != 0 && c.In != p.Type })
			all[i].Field = &of
		}
	}
	return all
}

func appendValues(b []byte, values []Value, names Names) []byte {
	first := true
	for i := range values {
		v := &values[i]
		if v.Field.Implied || v.Field.Name == "padding" && v.Len == 0 {
			continue
		}
		if !first {
			b = append(b, ' ')
		}
		first = false
		b = append(append(b, v.Field.Name...), '=')
		b = v.appendText(b, names)
		if name := v.topicName(names); name != "" {
			b = append(append(b, " topic="...), wire.Quoted(name)...)
		}
	}
	return b
}

// topicName returns the name of the topic with the id in the field, if known.
func (v *Value) topicName(names Names) string {
	if v.Field.Name != "topic_id" || names == nil {
		return ""
	}
	return names.TopicName(v.Uint)
}

func (v *Value) appendText(b []byte, names Names) []byte {
	switch v.Field.Kind {
	case Uint:
		return v.Field.appendNumber(b, v.Uint)
	case Flag:
		return strconv.AppendBool(b, v.Uint != 0)
	case Text:
		return append(b, wire.Quoted(wire.CleanName(v.Bytes))...)
	case Bytes:
		return fmt.Appendf(b, "(%d bytes)", v.Len)
	case Chunks:
		return fmt.Appendf(b, "%d (%d bytes)", len(v.Chunks), v.Len-len(v.Chunks)*v.Field.Size)
	case Uints:
		return appendList(b, ' ', Shown, v.Uints, func(b []byte, x uint64) []byte { return v.Field.appendNumber(b, x) })
	case Ranges:
		return appendList(b, ' ', Shown, v.Pairs, func(b []byte, x [2]uint64) []byte {
			return strconv.AppendUint(append(strconv.AppendUint(b, x[0], 10), '+'), x[1], 10)
		})
	}
	part := func(b []byte, x []Value) []byte { return append(appendValues(append(b, '{'), x, names), '}') }
	if v.Field.Kind == One && len(v.Parts) == 1 {
		return part(b, v.Parts[0])
	}
	return appendList(b, ' ', Shown, v.Parts, part)
}

// appendList writes the elements of a list, of a long one those before most, with sep between them.
func appendList[T any](b []byte, sep byte, most int, list []T, one func([]byte, T) []byte) []byte {
	b = append(b, '[')
	for i, x := range list {
		if i > 0 {
			b = append(b, sep)
		}
		if i == most {
			b = fmt.Appendf(b, "and %d more", len(list)-most)
			break
		}
		b = one(b, x)
	}
	return append(b, ']')
}

// appendNumber writes the names of a number, if it has any, or the number.
func (f *Field) appendNumber(b []byte, x uint64) []byte {
	for _, c := range f.Codes {
		if c.Value == x {
			return append(b, c.Name...)
		}
	}
	switch {
	case f.Bits != nil:
		start := len(b)
		for _, c := range f.Bits {
			if x&c.Value != 0 {
				if len(b) > start {
					b = append(b, '|')
				}
				b = append(b, c.Name...)
			}
		}
		if len(b) == start {
			b = append(b, '0')
		}
		return b
	case f.Hex:
		return fmt.Appendf(b, "%0*x", 2*f.Size, x)
	}
	return strconv.AppendUint(b, x, 10)
}

// JSON appends header and fields to b as members of an object, with names and values as in docs/vectors, but ids and
// hashes as text, in hexadecimal like bytes. Other numbers are not rounded. Names are text, Go-quoted if unprintable.
// Topics with a known name have "topic" in addition to their id.
func (p *Packet) JSON(b []byte, names Names) []byte {
	b = append(b, `"header":{`...)
	b = appendMembers(b, p.Header, names)
	if len(p.Header) > 0 {
		b = fmt.Appendf(b, `,"type_name":%q`, p.Type)
	}
	b = append(b, `},"fields":{`...)
	b = appendMembers(b, p.Fields, names)
	return append(b, '}')
}

func appendMembers(b []byte, values []Value, names Names) []byte {
	first := true
	for i := range values {
		v := &values[i]
		if v.Field.Implied {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(strconv.AppendQuote(b, v.Field.Name), ':')
		b = v.appendJSON(b, names)
		if name := v.topicName(names); name != "" {
			b = appendJSONText(append(b, `,"topic":`...), []byte(name))
		}
	}
	return b
}

func (v *Value) appendJSON(b []byte, names Names) []byte {
	switch v.Field.Kind {
	case Uint:
		return v.Field.appendJSONUint(b, v.Uint)
	case Flag:
		return strconv.AppendBool(b, v.Uint != 0)
	case Text:
		return appendJSONText(b, v.Bytes)
	case Bytes:
		return appendJSONHex(b, v.Bytes)
	case Chunks:
		return appendList(b, ',', len(v.Chunks), v.Chunks, appendJSONHex)
	case Uints:
		return appendList(b, ',', len(v.Uints), v.Uints, v.Field.appendJSONUint)
	case Ranges:
		return appendList(b, ',', len(v.Pairs), v.Pairs, func(b []byte, x [2]uint64) []byte { return fmt.Appendf(b, "[%d,%d]", x[0], x[1]) })
	}
	part := func(b []byte, x []Value) []byte { return append(appendMembers(append(b, '{'), x, names), '}') }
	if v.Field.Kind == One && len(v.Parts) == 1 {
		return part(b, v.Parts[0])
	}
	return appendList(b, ',', len(v.Parts), v.Parts, part)
}

// appendJSONUint writes a number; an id or a hash as in text.
func (f *Field) appendJSONUint(b []byte, x uint64) []byte {
	if f.Hex && f.Size >= 4 {
		return fmt.Appendf(b, `"%0*x"`, 2*f.Size, x)
	}
	return strconv.AppendUint(b, x, 10)
}

func appendJSONHex(b, x []byte) []byte { return append(hex.AppendEncode(append(b, '"'), x), '"') }

// appendJSONText writes any bytes as a JSON string without control characters.
func appendJSONText(b, text []byte) []byte {
	quoted, err := json.Marshal(wire.CleanName(text))
	if err != nil {
		panic(err) // a string can always be marshaled
	}
	return append(b, quoted...)
}
