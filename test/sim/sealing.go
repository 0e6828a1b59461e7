package sim

import (
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// Sealing protects the packets of nodes with keys that the attacker does not have: the network carries only its
// results. Nodes are the publishers and then the subscribers, by number. No call changes the packets passed to it.
type Sealing interface {
	// ID returns the id of a publisher, derived from a drawn one: it may contain a key id.
	ID(publisher int, drawn events.ID) events.ID
	// Begin opens a node again, for a new life or stay.
	Begin(now time.Duration, node int)
	// Seal returns the packets that the node sends for packets sent together, to the group or by
	// unicast: one for each, valid until the next call.
	Seal(now time.Duration, node int, unicast bool, packets [][]byte) [][]byte
	// Open returns the packet inside a packet received on a leg, or nil if the node rejects it.
	Open(now time.Duration, node int, unicast bool, leg int, packet []byte) []byte
	// Prove returns a node's reply to a request of that publisher, followed by its
	// proof, if Options.Trust is set. Proves reports whether a publisher's node accepts a receiver's reply.
	Prove(node int, of events.Instance, topic, number, receiver uint64, data []byte) []byte
	Proves(node int, of events.Instance, x *reliable.CompleteReply) bool
	// Stranger returns a packet sealed by another sender: with these keys in another group, with other
	// keys, or by an insider with the group's key.
	Stranger(now time.Duration, draw uint64) []byte
}

// forged reports whether an attacker can forge packets of others.
func (o *Options) forged() bool { return o.Attack.Every > 0 && o.Sealing == nil }

func (s *sim) beginSealing(node int16) {
	if s.o.Sealing != nil {
		s.o.Sealing.Begin(time.Duration(s.now), int(node))
	}
}

// seal returns what the network carries for packets sent together.
func (s *sim) seal(node int16, unicast bool, packets ...[]byte) [][]byte {
	if s.o.Sealing == nil {
		return packets
	}
	packets = s.o.Sealing.Seal(time.Duration(s.now), int(node), unicast, packets)
	if unicast && s.attacker != nil {
		s.attacker.add(packets[0])
	}
	return packets
}

// open opens a received packet, and returns the packet inside, or nil.
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
