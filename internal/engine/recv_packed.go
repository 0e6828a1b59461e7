package engine

import (
	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// Packets with compressed runs.

// reading is what a feed reads with.
type reading struct {
	rd    *topics.Reader
	plain []byte // the last packet that was compressed, unpacked
}

// read has the feed's reader begin with a packet of the log. What is compressed lies there as
// it came: each cursor that wants it unpacks it, in its own goroutine.
func (f *feed) read(packet []byte) {
	if wire.CodecOf(packet) != wire.CodecNone {
		p, err := wire.Unpack(f.g.l.cfg.Receiver.Unpacker, f.plain, packet)
		if err != nil { // the stream has unpacked it before
			f.rd.Missed(f.seq+1, 1, events.CauseUnreadable)
			return
		}
		f.plain, packet = p, p
	}
	f.rd.Packet(reliable.PacketData(packet))
}

// unreadable reports that packets of a publisher are compressed with a dictionary that is not here. All readers of the
// stream have gaps.
func (g *group) unreadable(st *reliable.Stream, err *events.DictionaryError) {
	if !g.wanting() {
		return
	}
	e := g.event(events.DictionaryMissing, st)
	e.Err = err
	g.l.say(&report.DictionaryMissing, "publisher", id(st.Publisher), "codec", err.Codec, "dictionary", err.Dictionary, "group", g.address)
	for _, s := range g.subs.List() {
		s.notify(e)
	}
	g.announce(e)
	g.l.event(e)
}
