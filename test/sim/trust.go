package sim

import (
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport/signed"
)

// Publishers that prove their identity, by Sealing, and an insider, which has all keys except theirs. Packets that
// it sends under its own identity verify, but must not be delivered, since it is trusted for other topics.

// trust returns what a subscriber accepts from publishers; nil: everything.
func (s *subscriber) trust() func() reliable.TopicTrust {
	if s.sim.o.Trust == nil {
		return nil
	}
	return func() reliable.TopicTrust { return s.sim.o.Trust }
}

// checkKnown checks that the stream is one of a publisher of the run, unless streams may be forged.
func (o *output) checkKnown() {
	options := o.s.sim.o
	if o.t != nil || options.forged() || options.Trust != nil && !options.Trust.May(o.st.Publisher, topicNames[0]) {
		return
	}
	o.s.sim.fail("subscriber %d: stream %v.%d, which begins with packet %d, belongs to no publisher", o.s.number, o.st.Publisher, o.st.Epoch, o.st.Start())
}

// checkItem checks an item just read. Without proofs of identity it may be forged.
func (f *feed) checkItem() {
	switch {
	case f.t != nil:
		f.check(&f.item)
	case f.sub.sim.o.Trust != nil && f.item.Topic != nil:
		f.fail("an item of publisher %v is delivered that no publisher sent: %+v", f.st.Publisher, f.item)
	}
}

// Untrusted implements reliable.Names.
func (s *subscriber) Untrusted(st *reliable.Stream, _ uint64, topic string, messages int, _ bool) {
	if s.sim.o.Trust.May(st.Publisher, topic) {
		s.sim.fail("subscriber %d: refused topic %s of publisher %v, which may publish it", s.number, topic, st.Publisher)
	}
	s.sim.report.RefusedMessages += uint64(messages)
}

// tally counts what readers refuse.
type tally struct{ r *Report }

func (tally) Dropped()               {}
func (tally) Unwanted(uint64, int)   {}
func (t tally) Refused(messages int) { t.r.RefusedMessages += uint64(messages) }

// prove returns a reply in the form in which a subscriber sends it.
func (s *subscriber) prove(st *reliable.Stream, topic, number uint64, data []byte) (out []byte, signed bool) {
	if s.sim.o.Trust == nil {
		return data, false
	}
	return s.sim.o.Sealing.Prove(int(s.index), st.Instance, topic, number, s.id, data), true
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
	// Prove returns a node's reply to a request of that publisher, followed by its
	// proof, if Options.Trust is set. Trust defines whose replies publishers accept.
	Prove(node int, of events.Instance, topic, number, receiver uint64, data []byte) []byte
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
