package sim

import (
	"encoding/binary"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
)

// present is what the publisher knows of a subscriber, read from the statuses that reached it.
type present struct {
	limit       uint64
	admitted    reliable.Instant // when a new packet went out that it had room for, last
	since       uint64           // next new packet when it was heard first, and joined
	tagged      bool             // it has said that it carries the tag
	left        bool
	joining     bool // it fetches what was sent before it came
	silent      bool
	released    bool // flow control does not wait for it now
	wasReleased bool // it was released, at some time
}

// counts reports whether the publisher may wait for m, which it does not while m joins. docs/protocol §8.10.
func (t *truth) counts(m *present) bool {
	return t.o.Flow != FlowNone && !m.joining && (m.tagged || !t.o.Tagged)
}

// checkFree checks that no subscriber holds the publisher up before the publisher knows that it counts: without any it
// runs free. docs/protocol §8.1, §8.2.
func (p *publisher) checkFree() {
	if p.s == nil || p.s.Room() > 0 {
		return
	}
	for _, m := range p.t.members {
		if p.t.counts(m) && !m.left && !m.released { // one that was released may be back
			return
		}
	}
	p.sim.fail("publisher %d: held up by flow control at packet %d, though none of %d subscribers counts", p.index, p.t.next, len(p.t.members))
}

// checkLimit checks that a new packet fits the windows of all subscribers that
// the publisher has heard of and waits for, or of as many as make its quorum. docs/protocol §8.1.
func (p *publisher) checkLimit(b []byte) {
	seq, first := dataSeq(b)
	if p.o.Flow == FlowNone || !first {
		return
	}
	count, room := 0, 0
	for _, m := range p.t.members {
		if seq < m.limit {
			m.admitted = p.sim.now
		}
		if m.left || m.silent || m.released || !p.t.counts(m) {
			continue
		}
		count++
		if seq < m.limit {
			room++
		}
	}
	need := count
	if p.o.Flow == FlowQuorum {
		need = min(need, p.o.Quorum)
	}
	if room < need {
		p.sim.fail("publisher %d: packet %d sent, though only %d of %d subscribers have room for it, and %d must", p.index, seq, room, count, need)
	}
}

// overhear records the content of a status, for the check of flow control.
func (p *publisher) overhear(b []byte) {
	h, err := wire.ParseHeader(b)
	if err != nil || h.Type != wire.TypeStatus || h.Publisher != p.id || h.Epoch != p.t.epoch ||
		wire.Verify(b, p.sim.o.Checksum) != nil {
		return
	}
	st, err := wire.ParseStatus(b)
	if err != nil || st.Next > p.s.Lead() {
		return
	}
	if h.Flags&wire.FlagLeaving != 0 {
		if m := p.t.members[st.Receiver]; m != nil {
			m.left = true
		}
		return
	}
	m := p.t.members[st.Receiver]
	if m != nil && m.left {
		return // late or replayed: each stay has an id of its own
	}
	if m == nil {
		m = &present{admitted: p.sim.now, since: p.t.next, joining: h.Flags&wire.FlagJoining != 0}
		p.t.members[st.Receiver] = m
	}
	if m.joining && h.Flags&wire.FlagJoining == 0 {
		m.joining, m.since = false, p.t.next // from now on it is waited for
	}
	m.limit = max(m.limit, st.Limit)
	if string(st.Tag) == tag && !m.tagged {
		m.tagged = true
		if p.o.Tagged {
			m.since = p.t.next // it counts from now on
		}
	}
}

// dataSeq is the sequence of a data packet, and whether it is sent for the first time.
func dataSeq(b []byte) (seq uint64, first bool) {
	if wire.Type(b[3]) != wire.TypeData {
		return 0, false
	}
	return binary.LittleEndian.Uint64(b[32:]), wire.Flags(b[4])&wire.FlagRepair == 0
}
