package reliable

import (
	"errors"
	"fmt"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// How a receiver reads packets with compressed runs, and gives up those that it cannot read.
// docs/protocol §13.6, §26.
//
// A packet is unpacked when it arrives, which shows whether it is sound, and delivered from there if it is its turn. A
// packet that has to wait lies as it arrived, in a slot or where the fabric has put it, and is unpacked once more when
// it is its turn, or by each cursor that reads it.

// unpacked is the packet that was unpacked last.
type unpacked struct {
	of     *Stream // nil: none
	seq    uint64
	packet []byte
}

// dictionaryName is how users see a dictionary: eight hexadecimal digits.
func dictionaryName(dict uint32) string { return fmt.Sprintf("%08x", dict) }

// packed takes in one data packet with compressed runs.
func (st *Stream) packed(now Instant, b []byte, d *wire.Data, repair bool) {
	if seq := d.Seq; st.lacks(seq) {
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

// lacks reports whether packet seq may be one to be kept or delivered.
func (st *Stream) lacks(seq uint64) bool {
	return !st.life.finished && seq >= st.next &&
		seq-st.next < max(st.win.span, uint64(st.r.cfg.WindowBytes/st.packetSize)) &&
		(seq >= st.tracked || st.win.entries.at(seq).state == entryMissing)
}

// unpack makes packet seq the one that was unpacked last.
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

// readable is a packet that has been taken in as it is without a codec, until the next one is
// unpacked. It is nil where it cannot be unpacked any more.
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

// runs are the runs of a packet that is held or lent.
func (st *Stream) runs(e *entry) []byte {
	if p := st.readable(st.packet(e)); p != nil {
		return PacketData(p)
	}
	return nil
}

// unreadable takes in a packet that is sound and cannot be read here: it is lost, and not asked for
// again, for it would come as it is. docs/protocol §13.6, §26.5.
func (st *Stream) unreadable(now Instant, seq uint64, repair bool) {
	st.r.stats.Unreadable++
	st.giveUpOne(now, seq, repair)
}

// unsupported takes in a sound packet with a codec, kind of run or packet size that is not supported here.
// docs/protocol §13.6.
func (st *Stream) unsupported(now Instant, b []byte, d *wire.Data, repair bool) {
	if !st.lacks(d.Seq) {
		st.data(now, b, d, repair) // counts it: nothing of it is delivered
		return
	}
	st.fault(events.FaultUnsupported)
	st.unreadable(now, d.Seq, repair)
}

// malformedData takes in a malformed packet with a sequence that can be read. A repair is the packet as it was sent
// first: a second repair would be the same. docs/protocol §13.7.
func (st *Stream) malformedData(now Instant, seq uint64, repair bool) {
	st.malformed()
	if repair && st.lacks(seq) && seq < st.tracked {
		st.giveUpOne(now, seq, repair)
	}
}

// giveUpOne gives up packet seq, which has come and is of no use.
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
		st.nak.found()
	}
	*e = entry{state: entryGone, cause: events.CauseUnreadable}
	st.advance(now)
}

// maxUnreadable bounds the dictionaries of one stream that are reported.
const maxUnreadable = 16

// reportUnreadable reports the unknown dictionary of packet b, once a stream.
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
	e.Unreadable = &events.DictionaryError{Publisher: events.PublisherID(st.Publisher), Epoch: st.Epoch,
		Codec: p.Codec.String(), Dictionary: dictionaryName(p.Dict)}
	st.out.Deliver(e)
}
