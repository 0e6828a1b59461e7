package sim

import (
	"math/rand/v2"
	"slices"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// Packets that no subscriber can read: they name a codec that none knows. The invariants: these are lost as unreadable,
// and no others are; their subscriber learns of it; and it requests none that has arrived. docs/protocol §13.6.

// unreadable lets some publishers send such.
func (d drawer) unreadable(o *Options) {
	if !d.chance(15) {
		return
	}
	for i := range o.Publishers {
		o.Publishers[i].Unreadable = d.ratio(30, 50*Percent)
	}
}

// unreadable reports whether packet seq is so: its repairs are as well.
func (t *truth) unreadable(seq uint64) bool {
	return t.o.Unreadable > 0 && Ratio(rand.NewPCG(t.publisher^t.epoch, seq).Uint64()%uint64(Always)) < t.o.Unreadable
}

// outbound are the packets that leave for those that the publisher sends together.
func (p *publisher) outbound(packets [][]byte) [][]byte {
	if p.o.Unreadable == 0 {
		return packets
	}
	packets = slices.Clone(packets)
	for i, b := range packets {
		if !isData(b) || !p.t.unreadable(wire.DataSeq(b)) {
			continue
		}
		b = slices.Clone(b)
		wire.PutPacked(b, &wire.Packed{Codec: wire.LastCodec + 1, Len: len(b)}) // more than there are
		if p.sim.o.Checksum {
			wire.SetChecksum(b)
		}
		packets[i] = b
	}
	return packets
}

// checkReadable checks that delivered packets can be read, and that those that are lost as unreadable cannot, as
// was reported. An attacker may send malformed repairs, which are given up as well (§13.7); without the dictionary
// others are.
func (o *output) checkReadable(e *reliable.Event) {
	switch {
	case o.t == nil || o.s.o.NoDictionary || o.s.sim.o.forged():
		return
	case e.Kind == reliable.EventPacket && o.t.unreadable(e.Seq):
		o.s.sim.fail("subscriber %d: packet %d is delivered, and cannot be read", o.s.number, e.Seq)
		return
	case e.Cause != events.CauseUnreadable || e.Kind != reliable.EventGap && e.Kind != reliable.EventEnd:
		return
	}
	for seq := e.Seq; seq < e.Seq+e.Count; seq++ {
		if !o.t.unreadable(seq) || !o.unsupported {
			o.s.sim.fail("subscriber %d: packet %d is lost as unreadable: it is: %v, reported: %v", o.s.number, seq, o.t.unreadable(seq), o.unsupported)
		}
	}
}

// fault takes in a reported fault of the publisher.
func (o *output) fault(err *events.FaultError) {
	o.s.sim.trace("subscriber %d: %v", o.s.number, err)
	if err.Fault != events.FaultUnsupported {
		return // packets that the network has damaged do not parse, either
	}
	if o.t != nil && o.t.o.Unreadable == 0 && !o.s.sim.o.forged() {
		o.s.sim.fail("subscriber %d: %v", o.s.number, err)
	}
	o.unsupported = true
	o.s.sim.report.Unsupported++
}

// receive hands a packet to the receiver, and notes one that it has taken in and cannot read. One that is too far
// ahead it drops instead, and may ask for.
func (s *subscriber) receive(now reliable.Instant, from uint64, b []byte) {
	if len(b) < wire.DataHeaderLen || !isData(b) || wire.CodecOf(b) <= wire.LastCodec {
		s.r.Handle(now, from, b)
		return
	}
	h, _ := wire.ParseHeader(b)
	seq, before := wire.DataSeq(b), s.r.Stats() // the memory is not ours any more after that
	s.r.Handle(now, from, b)
	after := s.r.Stats()
	if o := s.outputOf(h); o != nil && after.Unreadable > before.Unreadable &&
		after.Overrun+after.Implausible == before.Overrun+before.Implausible {
		o.unread[seq] = true
	}
}

// checkNAK checks that nothing is asked for that has come and cannot be read.
func (s *subscriber) checkNAK(b []byte) {
	if wire.Type(b[3]) != wire.TypeNAK {
		return
	}
	h, _ := wire.ParseHeader(b)
	o := s.outputOf(h)
	n, err := wire.ParseRanges(b)
	if o == nil || err != nil || len(o.unread) == 0 {
		return
	}
	for first, count, ok := n.Next(); ok; first, count, ok = n.Next() {
		for seq := first; seq < first+count; seq++ {
			if o.unread[seq] {
				s.sim.fail("subscriber %d asks for packet %d, which has come and cannot be read", s.number, seq)
			}
		}
	}
}

// outputOf is that of the stream of a packet, or nil.
func (s *subscriber) outputOf(h wire.Header) *output {
	for _, st := range s.r.Streams() {
		if st.Publisher == h.Publisher && st.Epoch == h.Epoch {
			return outputOf(st)
		}
	}
	return nil
}
