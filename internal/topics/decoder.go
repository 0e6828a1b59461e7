package topics

import (
	"errors"
	"fmt"
	"slices"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// decoder decompresses the packets of a receiver's streams, and reports unknown dictionaries.
type decoder struct {
	unpacker wire.Unpacker // nil: compressed packets are lost
	missing  func(*events.DictionaryError)

	packet []byte  // the last decompressed one; empty: none
	of     *Stream // its stream
	seq    uint64
}

// maxReported is the maximum number of dictionaries reported per stream.
const maxReported = 16

// Unpack makes streams readable that are compressed. It calls missing once for each stream and unknown dictionary.
func (r *Receiver) Unpack(u wire.Unpacker, missing func(*events.DictionaryError)) {
	r.decoder = decoder{unpacker: u, missing: missing}
}

// Check implements reliable.Contents.
func (st *Stream) Check(b []byte) ([]byte, error) {
	x := &st.r.decoder
	x.packet = x.packet[:0]
	if x.unpacker == nil {
		return nil, wire.ErrUnsupported
	}
	p, err := wire.Unpack(x.unpacker, x.packet, b)
	switch {
	case errors.Is(err, wire.ErrDictionary):
		st.lacks(b)
		return nil, reliable.ErrUnreadable
	case err == nil:
		x.of, x.seq, x.packet = st, wire.DataSeq(b), p
	}
	return p, err
}

// Readable implements reliable.Contents.
func (st *Stream) Readable(b []byte) []byte {
	if x := &st.r.decoder; len(x.packet) > 0 && x.of == st && x.seq == wire.DataSeq(b) {
		return x.packet
	}
	p, _ := st.Check(b)
	return p
}

// lacks reports the unknown dictionary of packet b, once.
func (st *Stream) lacks(b []byte) {
	p, _ := wire.ParsePacked(b)
	if slices.Contains(st.dicts, p.Dict) || len(st.dicts) >= maxReported {
		return
	}
	st.dicts = append(st.dicts, p.Dict)
	st.r.decoder.missing(&events.DictionaryError{Publisher: st.packets.Publisher, Epoch: st.packets.Epoch,
		Codec: p.Codec.String(), Dictionary: fmt.Sprintf("%08x", p.Dict)})
}
