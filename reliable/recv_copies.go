package reliable

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// SetLeg sets the leg of the packets that Handle gets next.
func (r *Receiver) SetLeg(leg int) { r.leg = leg }

// legCounts counts the first transmissions of all streams of a group that arrived by one leg.
type legCounts struct {
	stats.Leg
	unfilled uint64 // packets of Lost that were lost on every leg
}

// LegStats returns the counts of each leg, with zero Transport; nil with one leg.
func (r *Receiver) LegStats() []stats.Leg {
	all := make([]stats.Leg, len(r.legs))
	for i := range all {
		s := &all[i]
		*s = r.legs[i].Leg
		s.Filled = s.Lost - min(s.Lost, r.legs[i].unfilled)
		for _, st := range r.list {
			l := &st.path.legs.of[i]
			if s.Skew = max(s.Skew, l.skew.known()); l.silent && !st.life.down {
				s.Silent++
			}
		}
	}
	return all
}

// LegEvent reports to a Sink that a stream fell silent on a leg, or is received by it again.
type LegEvent struct {
	Leg    int
	Silent bool          // no packet arrives by the leg while another brings the stream; false: the leg works again
	For    time.Duration // how long the leg was silent
}

// copied handles a data packet, by its header alone, if a copy has already arrived. It reports whether b is such a
// packet. docs/protocol §23.3.
func (r *Receiver) copied(now Instant, b []byte) bool {
	st, repair := r.dataOf(b)
	if st == nil {
		return false
	}
	seq := wire.DataSeq(b)
	if seq < st.start || seq >= st.tracked || seq >= st.next && st.win.entries.at(seq).state == entryMissing {
		return false
	}
	r.latest = st
	switch {
	case !repair:
		st.brought(now, seq, false)
	case st.path.legs.of[r.leg].again.add(seq):
		r.stats.Duplicates++ // a further repair of the packet
	default:
		r.legs[r.leg].Repairs++
	}
	return true
}

// dataOf returns the stream of data packet b, by its header, or nil.
func (r *Receiver) dataOf(b []byte) (st *Stream, repair bool) {
	if len(b) < wire.DataHeaderLen {
		return nil, false
	}
	st = r.latest
	if st != nil && st.plain.known && [wire.HeaderLen]byte(b) == st.plain.head {
		return st, false
	}
	h, err := wire.ParseHeader(b)
	if err != nil || h.Type != wire.TypeData {
		return nil, false
	}
	if key := h.Instance(); st == nil || st.Instance != key {
		st = r.instances.streams[key]
	}
	if st == nil || h.GroupTag != st.path.tag {
		return nil, false
	}
	return st, h.Flags&wire.FlagRepair != 0
}

// brought records a first transmission that arrived. docs/protocol §23.4.
func (st *Stream) brought(now Instant, seq uint64, first bool) {
	x := st.path.legs
	st.heardBy(now)
	x.how = x.brought(now, st.r.leg, seq, first)
	st.passed(now)
}

// arrived records a packet of which no copy has arrived before.
func (st *Stream) arrived(now Instant, seq uint64, repair bool) {
	if repair {
		st.path.legs.of[st.r.leg].again.add(seq)
		st.r.legs[st.r.leg].Repairs++
		return
	}
	st.brought(now, seq, true)
}

// heardBy records a sign of life on the leg.
func (st *Stream) heardBy(now Instant) {
	l := &st.path.legs.of[st.r.leg]
	if l.silent {
		l.silent = false
		st.r.sink.Leg(st, LegEvent{Leg: st.r.leg, For: st.r.up(now).sub(l.heard)})
	}
	l.heard, l.missed = st.r.up(now), 0
}

// passed schedules NAKs for missing packets that all legs waited for have passed: none of these legs will still bring
// them.
func (st *Stream) passed(now Instant) {
	x := st.path.legs
	from := x.advance()
	if st.nak.missing == 0 || x.passed == from {
		return
	}
	due := Never
	for seq := max(from, st.next); seq < min(x.passed, st.tracked); seq++ {
		if e := st.win.entries.at(seq); e.state == entryMissing && e.tries == 0 {
			if due == Never {
				due = st.r.dueAt(now, now.Add(st.nak.firstDelay(st.r.cfg.Rand)))
			}
			e.due = min(e.due, due)
		}
	}
	st.nak.by(due)
}

// overdue stops waiting for slow legs, which have not yet delivered a packet beyond the first one with a due NAK.
func (st *Stream) overdue(now Instant) {
	x, judged := st.path.legs, st.r.judged(now)
	for seq := max(x.passed, st.next); seq < st.tracked; seq++ {
		if e := st.win.entries.at(seq); e.state == entryMissing && e.tries == 0 && e.due <= judged {
			x.overdue(seq)
			st.passed(now)
			return
		}
	}
}

// beat records by which leg a heartbeat arrived. fresh: it is the first copy of a new one. It reports whether the
// heartbeat is another copy of the newest, from which nothing else is taken. docs/protocol §23.5.
func (st *Stream) beat(now Instant, from uint64, hb *wire.Heartbeat, fresh bool) (copy bool) {
	x := st.path.legs
	l := &x.of[st.r.leg]
	copy = !fresh && hb.SentAt == st.clock.newest
	if l.old++; hb.SentAt > l.newest { // newer than all before by the same leg, even if it is a late copy
		l.old = 0
	}
	if !fresh && !copy {
		return false // old
	}
	l.newest = hb.SentAt // no other value is trusted: it may be forged
	if st.life.down {
		x.restart(st.r.up(now))
	}
	st.heardBy(now)
	x.comes(now, st.r.leg, hb.Lead)
	st.passed(now)
	if fresh {
		for i, tag := range st.r.cfg.LegTags {
			x.of[i].absent = !hb.Legs.Has(st.path.tag, tag)
		}
		x.silences(st.r.up(now), st.r.leg, lostHeartbeats*st.life.heartbeatEvery+slowHeartbeat, func(leg int) {
			st.r.legs[leg].Falls++
			st.r.sink.Leg(st, LegEvent{Leg: leg, Silent: true, For: st.r.up(now).sub(x.of[leg].heard)})
			if x.of[leg].old >= oldHeartbeats {
				st.fault(events.FaultClock)
			}
		})
		return false
	}
	st.follow(from)
	return true
}

// peers returns the peers to which replies to the stream are sent.
func (p *paths) peers() []uint32 {
	if p.legs == nil {
		return []uint32{p.peer}
	}
	var all []uint32
	for i := range p.legs.n {
		if l := &p.legs.of[i]; l.known {
			all = append(all, l.peer)
		}
	}
	return all
}

// to returns the peer for a control packet. again selects another leg, since the one before may have been lost.
func (p *paths) to(again bool) uint32 {
	if p.legs == nil {
		return p.peer
	}
	return p.legs.way(again)
}
