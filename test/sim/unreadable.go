package sim

import (
	"math/rand/v2"
	"slices"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
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

// unreadState is what a subscriber has received that cannot be read.
type unreadState struct {
	reported map[events.Instance]bool            // the fault was reported
	arrived  map[events.Instance]map[uint64]bool // packets
	read     []unreadPacket                      // of this step
	before   stats.ReceiverPackets
}

type unreadPacket struct {
	of  events.Instance
	seq uint64
}

// checkUnreadable checks that packets lost as unreadable cannot be read, and that this was reported. An attacker may
// send malformed repairs, which are also given up (§13.7); without the dictionary there are further ones.
func (s *subscriber) checkUnreadable(of events.Instance, h hole) {
	t := s.sim.truth(of)
	if t == nil || s.o.NoDictionary || s.sim.o.forged() || h.cause != events.CauseUnreadable {
		return
	}
	for seq := h.first; seq < h.end; seq++ {
		if !t.unreadable(seq) || !s.faults.reported[of] {
			s.sim.fail("subscriber %d: packet %d is lost as unreadable; unreadable: %v, reported: %v", s.number, seq, t.unreadable(seq), s.faults.reported[of])
		}
	}
}

// fault processes a reported fault of a publisher.
func (s *subscriber) fault(of events.Instance, err *events.FaultError) {
	s.sim.trace("subscriber %d: %v", s.number, err)
	t := s.sim.truth(of)
	switch {
	case err.Fault == events.FaultTopic && s.sim.o.Trust.May(err.Publisher, err.Topic):
		s.sim.fail("subscriber %d: refused topic %s of publisher %v, which may publish it", s.number, err.Topic, err.Publisher)
	case err.Fault != events.FaultUnsupported:
		return // packets damaged by the network do not parse either
	case t != nil && t.o.Unreadable == 0 && !s.sim.o.forged():
		s.sim.fail("subscriber %d: %v", s.number, err)
	}
	if s.faults.reported == nil {
		s.faults.reported = make(map[events.Instance]bool)
	}
	s.faults.reported[of] = true
	s.sim.report.Unsupported++
}

// received records a packet that the loop reads.
func (s *subscriber) received(b []byte, unicast bool, leg int) {
	if unicast {
		return
	}
	if s.sim.second != nil && s.o.Only == 0 {
		s.legs.record(s.sim, leg, b)
	}
	if len(b) < wire.DataHeaderLen || !isData(b) || wire.CodecOf(b) <= wire.LastCodec || s.owned() {
		return
	}
	if h, err := wire.ParseHeader(b); err == nil {
		if len(s.faults.read) == 0 {
			s.receivers(func(_ *engine.Subscription, _ uint64, r *reliable.Receiver) { s.faults.before = r.Stats() })
		}
		s.faults.read = append(s.faults.read, unreadPacket{h.Instance(), wire.DataSeq(b)})
	}
}

// readUnreadable records the packets of this step that cannot be read, after the step. The receiver may drop one that
// is too far ahead, and request it later.
func (s *subscriber) readUnreadable() {
	if len(s.faults.read) == 0 {
		return
	}
	var after stats.ReceiverPackets
	s.receivers(func(_ *engine.Subscription, _ uint64, r *reliable.Receiver) { after = r.Stats() })
	before := &s.faults.before
	if after.Unreadable-before.Unreadable == uint64(len(s.faults.read)) &&
		after.Overrun+after.Implausible == before.Overrun+before.Implausible {
		for _, x := range s.faults.read {
			if s.faults.arrived == nil {
				s.faults.arrived = make(map[events.Instance]map[uint64]bool)
			}
			if s.faults.arrived[x.of] == nil {
				s.faults.arrived[x.of] = make(map[uint64]bool)
			}
			s.faults.arrived[x.of][x.seq] = true
		}
	}
	s.faults.read = s.faults.read[:0]
}

// replied checks a packet that the subscriber sends: no NAK may request a packet that has arrived and cannot be read.
func (s *subscriber) replied(b []byte) {
	s.countRequests(b)
	if wire.Type(b[3]) != wire.TypeNAK || len(s.faults.arrived) == 0 {
		return
	}
	h, _ := wire.ParseHeader(b)
	n, err := wire.ParseRanges(b)
	if err != nil {
		return
	}
	for first, count, ok := n.Next(); ok; first, count, ok = n.Next() {
		for seq := first; seq < first+count; seq++ {
			if s.faults.arrived[h.Instance()][seq] {
				s.sim.fail("subscriber %d requests packet %d, which has arrived and cannot be read", s.number, seq)
			}
		}
	}
}
