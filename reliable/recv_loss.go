package reliable

import (
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// The packets that a receiver is missing, until they arrive or are given up, and the cause of each loss.

// extend marks all unaccounted packets below seq as missing, as far as the window goes. docs/protocol §6.1.
func (st *Stream) extend(now Instant, seq uint64) {
	if seq <= st.tracked {
		return
	}
	st.high = max(st.high, seq)
	if !st.window() {
		st.skipUnseen(seq-st.next, events.CauseOverrun)
		return
	}
	end := min(seq, st.next+st.win.span)
	if end <= st.tracked {
		return
	}
	due := now.Add(st.nak.firstDelay(st.r.cfg.Rand))
	passed, grace := end, time.Duration(0) // how far all legs have come, and how long to wait for the slower ones
	if x := st.path.legs; x != nil {
		passed, grace = x.passed, x.grace()
	}
	if passed <= st.tracked {
		due, passed = due.Add(grace), end
	}
	due = st.r.dueAt(now, due)
	first, from := due, st.tracked
	st.win.entries.reach(st.next, st.tracked, end)
	for ; st.tracked < end; st.tracked++ {
		if st.tracked == passed {
			due = max(due, now).Add(grace)
		}
		*st.win.entries.at(st.tracked) = entry{state: entryMissing, since: st.r.up(now), due: due}
	}
	st.r.stats.Missing += st.tracked - from
	st.loss(LossFound, from, st.tracked-from, 0, 0)
	st.nak.addMissing(int(st.tracked-from), first, now.Add(st.r.cfg.Deadline))
}

// latest returns the last held packet behind seq, or nil.
func (st *Stream) latest(seq uint64) *entry {
	for i := st.tracked; i > seq+1; i-- {
		if e := st.win.entries.at(i - 1); e.state == entryHeld {
			return e
		}
	}
	return nil
}

// reclaimSlot drops a packet that waits in a slot. It will be requested again.
func (st *Stream) reclaimSlot(now Instant, e *entry) {
	st.win.slots.Release(e.slot)
	due := now.Add(st.nak.rtt.retry(st.nak.path))
	*e = entry{state: entryMissing, since: st.r.up(now), due: due}
	st.win.history.low = st.next
	st.contents.Reread()
	st.r.stats.Missing++
	st.r.stats.Overrun++
	st.nak.addMissing(1, due, now.Add(st.r.cfg.Deadline))
}

// found accounts for a missing packet that arrived. It reports whether it was a repair.
func (st *Stream) found(now Instant, seq uint64, e *entry, repair bool) (repaired bool) {
	st.life.heard = st.r.up(now)
	st.nak.settled()
	if st.win.history.came(st, now, seq) {
		// neither lost nor late: sent before the receiver joined
	} else if repair {
		repaired = true
		st.repaired(now, seq, e)
		st.r.stats.Repaired++
		st.win.counts.Repaired++
		if e.tries == 1 && st.r.runs.ranSince(e.asked) {
			st.nak.rtt.sample(now.Sub(e.asked)) // after a second request the repair may answer either
		}
		st.nak.repaired()
		if x := st.path.legs; x != nil {
			x.repaired(seq, 1)
		}
	} else if x := st.path.legs; x == nil || x.how == overtaken {
		st.r.stats.Late++
		st.nak.late(st.r.up(now).sub(e.since))
	}
	return repaired
}

// loss reports a step to the sink.
func (st *Stream) loss(step LossStep, seq, count uint64, took, asked time.Duration) {
	st.r.sink.Loss(st, LossEvent{Step: step, Seq: seq, Count: count, Took: took, Asked: asked})
}

// repaired reports a missing packet that arrived as a repair.
func (st *Stream) repaired(now Instant, seq uint64, e *entry) {
	asked := time.Duration(0)
	if e.tries > 0 {
		asked = max(now.Sub(e.asked), 1)
	}
	st.loss(LossRepaired, seq, 1, st.r.up(now).sub(e.since), asked)
}

// reportDelivered reports the delivery of a repair that waited for earlier packets.
func (st *Stream) reportDelivered(now Instant, e *entry) {
	st.loss(LossDelivered, st.next, 1, st.r.up(now).sub(e.since), 0)
	e.since = 0
}

// Packets that are lost permanently, and the cause of each loss.

// abandoned is a sequence beyond the window, below which all packets are given up.
type abandoned struct {
	below uint64
	cause events.Cause
}

// giveUp gives up all missing packets below end. docs/protocol §9.1.
func (st *Stream) giveUp(now Instant, end uint64, cause events.Cause) {
	st.win.history.giveUp(st, now, end, cause)
	for seq := st.next; seq < min(end, st.tracked) && st.nak.missing > 0; seq++ {
		if e := st.win.entries.at(seq); e.state == entryMissing {
			e.state, e.cause = entryGone, cause
			st.nak.settled()
		}
	}
	if end > st.tracked && end > st.abandon.below {
		st.abandon.below, st.abandon.cause = end, cause
	}
	st.advance(now)
}

// overrun handles a packet beyond the window: the receiver has fallen so far behind that it must skip packets. One such
// packet may be damaged, so only a second one nearby is accepted. docs/protocol §9.4.
func (st *Stream) overrun(now Instant, seq uint64) {
	if st.guard.impossible(seq, st.high, st.life.down) {
		st.r.stats.Implausible++
		return
	}
	st.r.stats.Overrun++
	if !st.guard.confirmed(seq, 0, st.win.span) {
		return
	}
	st.alive(now)
	st.high = max(st.high, seq)
	st.contents.Overrun()
	// Give up a quarter of the window more than necessary, so that the next packets find room.
	st.giveUp(now, seq+1-st.win.span+st.win.span/4, events.CauseOverrun)
}

// expire gives up packets that have been missing for longer than the deadline. docs/protocol §9.1.
func (st *Stream) expire(now Instant) {
	judged := st.r.judged(now)
	if st.nak.missing == 0 || judged < st.nak.expireAt {
		return
	}
	expired, next := false, Never
	for seq, left := st.next, st.nak.missing; seq < st.tracked && left > 0; seq++ {
		e := st.win.entries.at(seq)
		if e.state != entryMissing {
			continue
		}
		left--
		if e.since == neverUp {
			continue // not requested yet
		}
		if dead := st.r.expiry(e.since, st.r.cfg.Deadline); dead > st.r.judgedUp(now) {
			next = min(next, st.r.when(dead))
			continue
		}
		expired = true
		if st.win.history.open && seq < st.win.history.end {
			st.win.history.giveUp(st, now, seq+1, events.CauseDeadline)
			continue
		}
		e.state, e.cause = entryGone, events.CauseDeadline
		st.nak.settled()
	}
	st.nak.expireAt = next
	if expired {
		st.advance(now)
	}
}

// skipUnseen skips packets that were never counted as missing, because they are beyond the window or there is none.
func (st *Stream) skipUnseen(n uint64, cause events.Cause) {
	st.r.stats.Missing += n
	st.skip(n, cause)
}

// skip skips n permanently lost packets, and delivers the gap.
func (st *Stream) skip(n uint64, cause events.Cause) {
	if n == 0 {
		return
	}
	cause = st.holding.cause(cause)
	if x := st.path.legs; x != nil {
		x.repaired(st.next, n)
	}
	countLost(&st.r.stats, n, cause)
	st.win.counts.Lost += n
	st.report.lost += uint32(n)
	e := st.r.event(EventGap, st.next)
	e.Count, e.Cause = n, cause
	st.out.Deliver(e)
	lost := st.next
	st.next += n
	st.tracked = max(st.tracked, st.next)
	st.high = max(st.high, st.next)
	st.contents.Lost(lost, st.next)
}
