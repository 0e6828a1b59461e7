package tap

import (
	"errors"

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
func (o *Observer) read(b []byte) (dissect.Packet, []byte) {
	p := dissect.Read(b)
	if p.Type != wire.TypeData || p.Err != nil {
		return p, nil
	}
	if wire.CodecOf(b) == wire.CodecNone {
		return p, b[wire.DataHeaderLen:]
	}
	plain, err := wire.Unpack(o.unpacker, o.plain, b)
	if errors.Is(err, wire.ErrDictionary) {
		return p, nil
	}
	if err != nil {
		p.Err = wire.ErrMalformed
		return p, nil
	}
	o.plain = plain
	for _, f := range dissect.Read(plain).Fields {
		if f.Field.Name == "runs" {
			p.Fields[len(p.Fields)-1] = f
		}
	}
	return p, plain[wire.DataHeaderLen:]
}
