package sim

import (
	"time"

	"github.com/fanfaremq/fanfare/reliable"
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

// replySink verifies the replies that a publisher receives, if subscribers prove their identity.
type replySink struct{ p *publisher }

func (replySink) Sent(reliable.SentTrain)      {}
func (replySink) Batch(uint64, uint64)         {}
func (replySink) Asked(uint64, uint64, uint64) {}
func (replySink) RoundTrip(time.Duration)      {}

func (x replySink) Replied(r *reliable.CompleteReply) bool {
	o := x.p.sim.o
	if o.Trust == nil || o.Sealing.Proves(int(x.p.index), x.p.instance(x.p.life), r) {
		return true
	}
	x.p.sim.report.RefusedReplies++
	return false
}
