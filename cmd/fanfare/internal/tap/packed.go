package tap

import (
	"errors"
	"fmt"

	"github.com/fanfaremq/fanfare/internal/compress"
	"github.com/fanfaremq/fanfare/internal/dissect"
	"github.com/fanfaremq/fanfare/internal/wire"
)

// Dictionaries tells with what packets may be compressed.
func (o *Observer) Dictionaries(dicts []*compress.Dictionary) {
	o.unpacker = compress.NewUnpacker(dicts)
}

// read takes a packet apart, and returns the runs of a data packet. Where they are compressed
// and can be read they take the place of what is compressed; that lasts until the next call.
// Where they cannot for want of a dictionary its hash is returned, 0 otherwise.
func (o *Observer) read(b []byte) (p dissect.Packet, runs []byte, lacks uint32) {
	p = dissect.Read(b)
	if p.Type != wire.TypeData || p.Err != nil {
		return p, nil, 0
	}
	if wire.CodecOf(b) == wire.CodecNone {
		return p, b[wire.DataHeaderLen:], 0
	}
	plain, err := wire.Unpack(o.unpacker, o.plain, b)
	if errors.Is(err, wire.ErrDictionary) {
		x, _ := wire.ParsePacked(b)
		return p, nil, x.Dict
	}
	if err != nil {
		p.Err = wire.ErrMalformed
		return p, nil, 0
	}
	o.plain = plain
	for _, f := range dissect.Read(plain).Fields {
		if f.Field.Name == "runs" {
			p.Fields[len(p.Fields)-1] = f
		}
	}
	return p, plain[wire.DataHeaderLen:], 0
}

// DictionaryName is how a dictionary is shown: as fanfare dict does.
func DictionaryName(hash uint32) string { return fmt.Sprintf("%08x", hash) }

// unread takes note of a data packet that cannot be read for want of a dictionary.
func (o *Observer) unread(s *Stream, p *Packet, repair bool) {
	if p.lacks == 0 {
		return
	}
	if !repair {
		s.Unread++
	}
	name := DictionaryName(p.lacks)
	if n := o.Lacking[name]; n > 0 || len(o.Lacking) < maxDictionaries {
		o.Lacking[name]++
	}
	if s.lacks != p.lacks {
		s.lacks = p.lacks
		o.tell(p, s, KindDictionary, 0, 0, "packets are compressed with dictionary %s: give it with -dict FILE, or what is in them is not shown, and their messages not counted", name)
	}
}
