package reliable

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// SetLeg sets the leg of the packets that Handle gets from now on.
func (r *Receiver) SetLeg(leg int) { r.leg = leg }

// legCounts counts first transmissions that arrived by one leg, of all streams of a group.
type legCounts struct {
	stats.Leg
	unfilled uint64 // of Lost: packets that were lost on every leg
}

// LegStats returns the counts of each leg; nil with one leg. Their Transport is zero.
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

// LegEvent reports a change of a stream on one of its legs to a Sink.
type LegEvent struct {
	Leg    int
	Silent bool          // the stream is not heard by it, while another leg brings it; or else it is again
	For    time.Duration // how long it was not
}

// copied takes in a data packet of which a copy is here, by its header alone. It reports
// whether b is one. docs/protocol §23.3.
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
		r.stats.Duplicates++ // it was sent again once more
	default:
		r.legs[r.leg].Repairs++
	}
	return true
}

// dataOf returns the stream that data packet b belongs to, by its header, or nil.
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
	if key := (Instance{h.Publisher, h.Epoch}); st == nil || st.Instance != key {
		st = r.instances.streams[key]
	}
	if st == nil || h.GroupTag != st.path.tag {
		return nil, false
	}
	return st, h.Flags&wire.FlagRepair != 0
}

// brought notes that a first transmission has come. docs/protocol §23.4.
func (st *Stream) brought(now Instant, seq uint64, first bool) {
	x := st.path.legs
	st.heardBy(now)
	x.how = x.brought(now, st.r.leg, seq, first)
	st.passed(now)
}

// arrived notes that a packet has come of which no copy is here.
func (st *Stream) arrived(now Instant, seq uint64, repair bool) {
	if repair {
		st.path.legs.of[st.r.leg].again.add(seq)
		st.r.legs[st.r.leg].Repairs++
		return
	}
	st.brought(now, seq, true)
}

// heardBy notes a sign of life by the leg.
func (st *Stream) heardBy(now Instant) {
	l := &st.path.legs.of[st.r.leg]
	if l.silent {
		l.silent = false
		st.r.sink.Leg(st, LegEvent{Leg: st.r.leg, For: st.r.up(now).sub(l.heard)})
	}
	l.heard, l.missed = st.r.up(now), 0
}

// passed schedules NAKs for missing packets which all legs that are waited for have passed: none
// of them will bring one any more.
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

// overdue finds out which legs are not worth waiting for: those that have not passed what is to be asked for now.
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

// beat takes in by which leg a heartbeat came. fresh: it is the first copy of a new one. It reports whether it is
// another copy of the newest, of which nothing else is to be learnt. docs/protocol §23.5.
func (st *Stream) beat(now Instant, from uint64, hb *wire.Heartbeat, fresh bool) (copy bool) {
	x := st.path.legs
	l := &x.of[st.r.leg]
	copy = !fresh && hb.SentAt == st.clock.newest
	if l.old++; hb.SentAt > l.newest { // a copy is newer than those that came by the same leg, also where it is late
		l.old = 0
	}
	if !fresh && !copy {
		return false // an old one
	}
	l.newest = hb.SentAt // no other is believed: it may be forged
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

// peers are those that replies to the stream go to.
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

// to returns the peer for a reply. again selects another leg, since the last reply may have been lost.
func (p *paths) to(again bool) uint32 {
	if p.legs == nil {
		return p.peer
	}
	return p.legs.way(again)
}
