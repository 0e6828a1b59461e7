package sim

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/transport/signed"
)

// Publishers that prove their identity, by Sealing, and an insider, which has all keys except theirs. Packets that
// it sends under its own identity verify, but must not be delivered, since it is trusted for other topics.

// trust returns what a subscriber accepts from publishers; nil: everything.
func (s *subscriber) trust() func() topics.TopicTrust {
	if s.sim.o.Trust == nil {
		return nil
	}
	return func() topics.TopicTrust { return s.sim.o.Trust }
}

// signer returns what signs a subscriber's replies; nil: nothing.
func (s *subscriber) signer() *signed.Signer {
	if s.sim.o.Trust == nil {
		return nil
	}
	return s.sim.o.Sealing.Signer(int(s.index))
}

// checkKnown checks that the stream is one of a publisher of the run, unless streams may be forged.
func (s *subscriber) checkKnown(x *stream) {
	o := s.sim.o
	if x.t != nil || o.forged() || o.Trust != nil && !o.Trust.May(x.st.Publisher, topicNames[0]) {
		return
	}
	s.sim.fail("subscriber %d: stream %v.%d, which begins with packet %d, belongs to no publisher", s.number, x.st.Publisher, x.st.Epoch, x.st.Start())
}

// replyTrust returns which replies publishers accept, if subscribers prove their identity.
func (s *sim) replyTrust() signed.Provider {
	if s.o.Trust == nil {
		return nil
	}
	return s.o.Sealing.Trust()
}

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
	// Signer signs the replies of a node, if Options.Trust is set. Trust defines which replies publishers accept.
	Signer(node int) *signed.Signer
	Trust() signed.Provider
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
