package sim

import (
	"math/rand/v2"
	"slices"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// Packets with a codec that no subscriber knows. The checker verifies: exactly these are lost as
// unreadable; their subscriber reports it; it requests none that has arrived. docs/protocol §13.6.

// unreadable lets some publishers send such packets.
func (d drawer) unreadable(o *Options) {
	if !d.chance(15) {
		return
	}
	for i := range o.Publishers {
		o.Publishers[i].Unreadable = d.ratio(30, 50*Percent)
	}
}

// unreadable reports whether packet seq and its repairs have an unknown codec.
func (t *truth) unreadable(seq uint64) bool {
	if t.o.Unreadable == 0 || t.plain[seq] {
		return false
	}
	draw := rand.NewPCG(uint64(t.Publisher^t.Epoch), seq).Uint64()
	return Ratio(draw%uint64(Always)) < t.o.Unreadable
}

// outbound returns the packets to be sent for packets that the publisher sends together.
func (p *publisher) outbound(packets [][]byte) [][]byte {
	if p.o.Unreadable == 0 {
		return packets
	}
	packets = slices.Clone(packets)
	for i, b := range packets {
		if !isData(b) {
			continue
		}
		if d, err := wire.ParseData(b); err == nil && d.Topics {
			p.t.plain[d.Seq] = true // publishers do not encode rounds
		}
		if !p.t.unreadable(wire.DataSeq(b)) {
			continue
		}
		b = slices.Clone(b)
		wire.PutPacked(b, &wire.Packed{Codec: wire.LastCodec + 1, Len: len(b)}) // larger than any known codec
		if p.sim.o.Checksum {
			wire.SetChecksum(b)
		}
		packets[i] = b
	}
	return packets
}

// checkReadable checks that delivered packets can be read, and that packets lost as unreadable cannot, as reported. An
// attacker may send malformed repairs, which are also given up (§13.7); without the dictionary there are further ones.
func (o *output) checkReadable(e *reliable.Event) {
	switch {
	case o.t == nil || o.s.o.NoDictionary || o.s.sim.o.forged():
		return
	case e.Kind == reliable.EventPacket && o.t.unreadable(e.Seq):
		o.s.sim.fail("subscriber %d: packet %d is delivered, but cannot be read", o.s.number, e.Seq)
		return
	case e.Cause != events.CauseUnreadable || e.Kind != reliable.EventGap && e.Kind != reliable.EventEnd:
		return
	}
	for seq := e.Seq; seq < e.Seq+e.Count; seq++ {
		if !o.t.unreadable(seq) || !o.unsupported {
			o.s.sim.fail("subscriber %d: packet %d is lost as unreadable; unreadable: %v, reported: %v", o.s.number, seq, o.t.unreadable(seq), o.unsupported)
		}
	}
}

// fault processes a reported fault of the publisher.
func (o *output) fault(err *events.FaultError) {
	o.s.sim.trace("subscriber %d: %v", o.s.number, err)
	if err.Fault != events.FaultUnsupported {
		return // packets damaged by the network do not parse either
	}
	if o.t != nil && o.t.o.Unreadable == 0 && !o.s.sim.o.forged() {
		o.s.sim.fail("subscriber %d: %v", o.s.number, err)
	}
	o.unsupported = true
	o.s.sim.report.Unsupported++
}

// receive passes a packet to the receiver, and records accepted packets that cannot be read. The
// receiver may drop one that is too far ahead, and request it later.
func (s *subscriber) receive(now reliable.Instant, from uint64, b []byte) {
	if len(b) < wire.DataHeaderLen || !isData(b) || wire.CodecOf(b) <= wire.LastCodec {
		s.r.Handle(now, from, b)
		return
	}
	h, _ := wire.ParseHeader(b)
	seq, before := wire.DataSeq(b), s.r.Stats() // the receiver owns the memory afterwards
	s.r.Handle(now, from, b)
	after := s.r.Stats()
	if o := s.outputOf(h); o != nil && after.Unreadable > before.Unreadable &&
		after.Overrun+after.Implausible == before.Overrun+before.Implausible {
		o.unread[seq] = true
	}
}

// checkNAK checks that no packet is requested that has arrived and cannot be read.
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
				s.sim.fail("subscriber %d requests packet %d, which has arrived and cannot be read", s.number, seq)
			}
		}
	}
}

// outputOf returns the output of a packet's stream, or nil.
func (s *subscriber) outputOf(h wire.Header) *output {
	for _, st := range s.r.Streams() {
		if st.Publisher == h.Publisher && st.Epoch == h.Epoch {
			return outputOf(st)
		}
	}
	return nil
}
