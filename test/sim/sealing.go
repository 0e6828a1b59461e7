package sim

import (
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

// Sealing is how nodes protect their packets, by keys that the attacker does not have: what it
// makes of them is all that the network carries. Nodes are the publishers and then the subscribers,
// by their numbers. No call changes the packets that it is given.
type Sealing interface {
	// ID is that of a publisher, for one that was drawn: it may name a key.
	ID(publisher int, drawn uint64) uint64
	// Begin opens a node anew: a life, or a stay.
	Begin(now time.Duration, node int)
	// Seal returns what the node sends for packets that go together, to the group or by unicast: one
	// for each, valid until the next call.
	Seal(now time.Duration, node int, unicast bool, packets [][]byte) [][]byte
	// Open returns the packet inside of what has come by a leg, and nil if the node does not take it.
	Open(now time.Duration, node int, unicast bool, leg int, packet []byte) []byte
	// Prove returns what a node replies to a request of the publisher with that id and epoch, with the proof that
	// stands behind it, if Options.Trust is set. Proves reports whether a publisher's node takes that of a receiver.
	Prove(node int, publisher, epoch, topic, number, receiver uint64, data []byte) []byte
	Proves(node int, publisher, epoch uint64, x *reliable.CompleteReply) bool
	// Stranger returns a packet that another sender has sealed: with these keys in another group, with other keys,
	// or as an insider, which has the group's key.
	Stranger(now time.Duration, draw uint64) []byte
}

// forged reports whether an attacker can make packets that are taken for those of others.
func (o *Options) forged() bool { return o.Attack.Every > 0 && o.Sealing == nil }

func (s *sim) beginSealing(node int16) {
	if s.o.Sealing != nil {
		s.o.Sealing.Begin(time.Duration(s.now), int(node))
	}
}

// seal is what the network gets of packets that go together.
func (s *sim) seal(node int16, unicast bool, packets ...[]byte) [][]byte {
	if s.o.Sealing == nil {
		return packets
	}
	packets = s.o.Sealing.Seal(time.Duration(s.now), int(node), unicast, packets)
	if unicast && s.attacker != nil {
		s.attacker.note(packets[0])
	}
	return packets
}

// open takes a packet that has come, and returns what is inside, or nil.
func (s *sim) open(node int16, unicast bool, p *packet) *packet {
	if s.o.Sealing == nil {
		return p
	}
	defer s.pool.drop(p)
	b := s.o.Sealing.Open(time.Duration(s.now), int(node), unicast, p.leg(), p.b)
	if b == nil {
		s.report.Refused++
		return nil
	}
	if p.from == attackerAddress {
		s.report.Relayed++
	}
	return s.pool.get(b, p.from)
}
