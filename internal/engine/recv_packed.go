package engine

import (
	"slices"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// Packets with compressed runs.

// reading is the part of a feed that parses packets.
type reading struct {
	rd    *topics.Reader
	plain []byte // unpacked copy of the last compressed packet
}

// read starts to read a packet of the log. The log has compressed packets as they came: each cursor that wants one
// unpacks it on its own goroutine.
func (f *feed) read(packet []byte) {
	if wire.CodecOf(packet) != wire.CodecNone {
		p, err := wire.Unpack(f.g.l.cfg.Compression.Unpacker, f.plain, packet)
		if err != nil { // unlikely: the stream has unpacked it before
			f.rd.Missed(f.seq+1, 1, events.CauseUnreadable)
			return
		}
		f.plain, packet = p, p
	}
	f.rd.Packet(reliable.PacketData(packet))
}

// unreadable reports that this host lacks the dictionary of a publisher's packets. All readers of the stream have gaps.
func (g *group) unreadable(err *events.DictionaryError) {
	if g.suppressed || !g.wanting() {
		return
	}
	of := events.Instance{Publisher: err.Publisher, Epoch: err.Epoch}
	i := slices.IndexFunc(g.r.Streams(), func(st *reliable.Stream) bool { return st.Instance == of })
	e := g.event(events.DictionaryMissing, g.r.Streams()[i])
	e.Err = err
	g.l.sayOf(err.Publisher, &report.DictionaryMissing, "publisher", err.Publisher, "codec", err.Codec, "dictionary", err.Dictionary, "group", g.address)
	for _, s := range g.subs.List() {
		s.notify(e)
	}
	g.announce(e)
	g.l.event(e)
}
