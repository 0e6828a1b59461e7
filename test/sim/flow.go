package sim

import (
	"encoding/binary"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
)

// member is what the publisher knows of a subscriber, read from the statuses that reached it.
type member struct {
	limit       uint64
	admitted    reliable.Instant // last time a new packet that fits its window was sent
	since       uint64           // next new packet when the subscriber was discovered, and had joined
	tagged      bool             // its statuses carry the tag
	left        bool             // or was removed as silent
	returned    bool             // a status came after that: it may count again, or the status is late
	joining     bool             // it fetches packets sent before it joined
	unsure      bool             // it does again, or the last status was late
	released    bool             // flow control does not wait for it
	wasReleased bool             // it was released at some time
}

// counts reports whether flow control may wait for m. It does not wait while m joins. docs/protocol §8.10.
func (t *truth) counts(m *member) bool {
	return t.o.Flow != FlowNone && !m.joining && (m.tagged || !t.o.Tagged)
}

// checkFree checks that flow control does not block the publisher before it has discovered a
// subscriber that counts. docs/protocol §8.1, §8.2.
func (p *publisher) checkFree() {
	free := false
	p.look(func(s *reliable.Sender) { free = s.Room() > 0 })
	if free {
		return
	}
	for _, m := range p.t.members {
		if p.t.counts(m) && (!m.left || m.returned) && !m.released { // a released one may have returned
			return
		}
	}
	p.sim.fail("publisher %d: blocked by flow control at packet %d, though none of %d subscribers counts", p.index, p.t.next, len(p.t.members))
}

// earlyPacket is a new packet that was sent though it does not fit the windows of enough members.
type earlyPacket struct {
	seq         uint64
	room, count int
	members     []*member // they count, and it does not fit their windows
	released    []*member // they may count again, and it fits their windows
}

// checkLimit checks that a new packet fits the windows of all subscribers that flow control waits
// for, or of a quorum of them. docs/protocol §8.1.
func (p *publisher) checkLimit(b []byte) {
	seq, first := dataSeq(b)
	if p.o.Flow == FlowNone || !first {
		return
	}
	x := earlyPacket{seq: seq}
	for _, m := range p.t.members {
		if seq < m.limit {
			m.admitted = p.sim.now
		}
		if m.left && !m.returned || !p.t.counts(m) {
			continue
		}
		if m.left || m.released || m.unsure {
			if seq < m.limit {
				x.released = append(x.released, m)
			}
			continue
		}
		x.count++
		if seq < m.limit {
			x.room++
		} else {
			x.members = append(x.members, m)
		}
	}
	if x.room < p.need(x.count) {
		p.early = append(p.early, x) // the loop reports in its next turn whether it has released them
		p.end.woken = true
	}
}

// need returns how many of so many members flow control waits for.
func (p *publisher) need(members int) int {
	if p.o.Flow == FlowQuorum {
		return min(members, p.o.Quorum)
	}
	return members
}

// checkEarly checks that the members that did not have room for a packet have been released.
func (p *publisher) checkEarly() {
	for _, x := range p.early {
		room, count := x.room, x.count
		for _, m := range x.released {
			if !m.released { // it counts, or may count
				room, count = room+1, count+1
			}
		}
		for _, m := range x.members {
			if m.wasReleased || m.left {
				count--
			}
		}
		if need := p.need(count); room < need {
			p.sim.fail("publisher %d: packet %d sent, though it fits the windows of only %d of %d subscribers, want %d", p.index, x.seq, room, count, need)
		}
	}
	p.early = p.early[:0]
}

// recordStatus records the content of a status, for the check of flow control.
func (p *publisher) recordStatus(b []byte) {
	h, err := wire.ParseHeader(b)
	if err != nil || h.Type != wire.TypeStatus || h.Instance() != p.t.Instance ||
		wire.Verify(b, p.sim.o.Checksum) != nil {
		return
	}
	st, err := wire.ParseStatus(b)
	if err != nil || st.Next > p.t.next {
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
		m.returned, m.limit = true, max(m.limit, st.Limit)
		return
	}
	if m == nil {
		m = &member{admitted: p.sim.now, since: p.t.next, joining: h.Flags&wire.FlagJoining != 0}
		p.t.members[st.Receiver] = m
	}
	joining := h.Flags&wire.FlagJoining != 0
	if m.unsure = joining && !m.joining; !joining && m.joining {
		m.joining, m.since = false, p.t.next // flow control waits for it from here on
	}
	m.limit = max(m.limit, st.Limit)
	if string(st.Tag) == tag && !m.tagged {
		m.tagged = true
		if p.o.Tagged {
			m.since = p.t.next // it counts from here on
		}
	}
}

// dataSeq returns the sequence of a data packet, and whether it is sent for the first time.
func dataSeq(b []byte) (seq uint64, first bool) {
	if wire.Type(b[3]) != wire.TypeData {
		return 0, false
	}
	return binary.LittleEndian.Uint64(b[32:]), wire.Flags(b[4])&wire.FlagRepair == 0
}
