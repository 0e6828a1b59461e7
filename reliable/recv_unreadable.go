package reliable

import (
	"errors"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// How a receiver takes in packets with a codec, and gives up those that it cannot read. docs/protocol §13.6, §26.

// decode processes a data packet with a codec.
func (st *Stream) decode(now Instant, b []byte, d *wire.Data, repair bool) {
	if seq := d.Seq; st.needs(seq) {
		p, err := st.contents.Check(b)
		switch {
		case errors.Is(err, ErrUnreadable):
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
		s.UnpackedBytes += uint64(len(p))
	}
	st.data(now, b, d, repair)
}

// needs reports whether the receiver may keep or deliver packet seq.
func (st *Stream) needs(seq uint64) bool {
	return !st.life.finished && seq >= st.next &&
		seq-st.next < max(st.win.span, uint64(st.r.cfg.WindowBytes/st.packetSize)) &&
		(seq >= st.tracked || st.win.entries.at(seq).state == entryMissing)
}

// readable returns a received packet in readable form, valid until the next packet is decoded. It is nil if the packet
// can no longer be decoded.
func (st *Stream) readable(b []byte) []byte {
	if wire.CodecOf(b) == wire.CodecNone {
		return b
	}
	return st.contents.Readable(b)
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
