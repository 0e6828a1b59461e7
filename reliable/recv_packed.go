package reliable

import (
	"errors"
	"fmt"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// How a receiver reads packets with compressed runs, and gives up those that it cannot read. docs/protocol §13.6, §26.
//
// A packet is decompressed when it arrives, which shows whether it is valid, and delivered from there if it is next. A
// packet that has to wait is held compressed, and decompressed again when it is delivered, or by each cursor that reads
// it.

// unpacked is the last decompressed packet.
type unpacked struct {
	of     *Stream // nil: none
	seq    uint64
	packet []byte
}

// dictionaryName is a dictionary as users see it: eight hexadecimal digits.
func dictionaryName(dict uint32) string { return fmt.Sprintf("%08x", dict) }

// packed processes a data packet with compressed runs.
func (st *Stream) packed(now Instant, b []byte, d *wire.Data, repair bool) {
	if seq := d.Seq; st.needs(seq) {
		switch err := st.unpack(seq, b); {
		case errors.Is(err, wire.ErrDictionary):
			st.reportUnreadable(b)
			st.unreadable(now, seq, repair)
			return
		case errors.Is(err, wire.ErrUnsupported):
			st.unsupported(now, b, d, repair)
			return
		case err != nil:
			st.malformedData(now, seq, repair)
			return
		}
		s := &st.r.stats
		s.Packed++
		s.PackedBytes += uint64(len(b))
		s.UnpackedBytes += uint64(len(st.r.unpacked.packet))
	}
	st.data(now, b, d, repair)
}

// needs reports whether the receiver may keep or deliver packet seq.
func (st *Stream) needs(seq uint64) bool {
	return !st.life.finished && seq >= st.next &&
		seq-st.next < max(st.win.span, uint64(st.r.cfg.WindowBytes/st.packetSize)) &&
		(seq >= st.tracked || st.win.entries.at(seq).state == entryMissing)
}

// unpack decompresses packet seq into the receiver's unpacked.
func (st *Stream) unpack(seq uint64, b []byte) error {
	u := &st.r.unpacked
	u.of = nil
	if st.r.cfg.Unpacker == nil {
		return wire.ErrUnsupported
	}
	p, err := wire.Unpack(st.r.cfg.Unpacker, u.packet, b)
	if err != nil {
		return err
	}
	u.of, u.seq, u.packet = st, seq, p
	return nil
}

// readable returns a received packet without compression, valid until the next packet is decompressed. It is nil if the
// packet can no longer be decompressed.
func (st *Stream) readable(b []byte) []byte {
	if wire.CodecOf(b) == wire.CodecNone {
		return b
	}
	seq := wire.DataSeq(b)
	if u := &st.r.unpacked; u.of == st && u.seq == seq {
		return u.packet
	}
	if st.unpack(seq, b) != nil {
		return nil
	}
	return st.r.unpacked.packet
}

// runs returns the runs of a held or lent packet.
func (st *Stream) runs(e *entry) []byte {
	if p := st.readable(st.packet(e)); p != nil {
		return PacketData(p)
	}
	return nil
}

// unreadable processes a valid packet that cannot be read here. It is lost, and not requested again: a repair would be
// the same packet. docs/protocol §13.6, §26.5.
func (st *Stream) unreadable(now Instant, seq uint64, repair bool) {
	st.r.stats.Unreadable++
	st.giveUpOne(now, seq, repair)
}

// unsupported processes a valid packet with an unsupported codec, kind of run or packet size. docs/protocol §13.6.
func (st *Stream) unsupported(now Instant, b []byte, d *wire.Data, repair bool) {
	if !st.needs(d.Seq) {
		st.data(now, b, d, repair) // only counts it
		return
	}
	st.fault(events.FaultUnsupported)
	st.unreadable(now, d.Seq, repair)
}

// malformedData processes a malformed packet with a readable sequence. A malformed repair is given up: another repair
// would be the same packet. docs/protocol §13.7.
func (st *Stream) malformedData(now Instant, seq uint64, repair bool) {
	st.malformed()
	if repair && st.needs(seq) && seq < st.tracked {
		st.giveUpOne(now, seq, repair)
	}
}

// giveUpOne gives up packet seq, which has arrived and cannot be used.
func (st *Stream) giveUpOne(now Instant, seq uint64, repair bool) {
	if st.path.legs != nil {
		st.arrived(now, seq, repair)
	}
	if seq >= st.high {
		st.alive(now)
	}
	if !st.window() {
		st.skipUnseen(seq-st.next, events.CauseOverrun)
		st.skip(1, events.CauseUnreadable)
		st.finish(now)
		return
	}
	if seq-st.next >= st.win.span {
		st.overrun(now, seq)
		return
	}
	waits := seq < st.tracked
	st.extend(now, seq+1)
	e := st.win.entries.at(seq)
	if waits {
		st.found(now, seq, e, repair)
	} else {
		st.nak.settled()
	}
	*e = entry{state: entryGone, cause: events.CauseUnreadable}
	st.advance(now)
}

// maxUnreadable is the maximum number of dictionaries reported per stream.
const maxUnreadable = 16

// reportUnreadable reports the unknown dictionary of packet b, once per stream.
func (st *Stream) reportUnreadable(b []byte) {
	p, _ := wire.ParsePacked(b)
	reported := &st.topics.unreadable
	if _, ok := (*reported)[p.Dict]; ok || len(*reported) >= maxUnreadable {
		return
	}
	if *reported == nil {
		*reported = make(map[uint32]struct{})
	}
	(*reported)[p.Dict] = struct{}{}
	e := st.r.event(EventUnreadable, st.next)
	e.Unreadable = &events.DictionaryError{Publisher: st.Publisher, Epoch: st.Epoch,
		Codec: p.Codec.String(), Dictionary: dictionaryName(p.Dict)}
	st.out.Deliver(e)
}
