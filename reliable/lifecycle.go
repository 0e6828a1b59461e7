package reliable

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// Heartbeats, silence and the end of a stream, at the receiver.

// heartbeat takes in a heartbeat. docs/protocol.md §5.10, §9.4.
func (st *Stream) heartbeat(now Instant, from uint64, flags wire.Flags, hb *wire.Heartbeat) {
	if st.guard.impossible(hb.Lead, st.high, st.down) ||
		hb.Lead > st.high && hb.Lead-st.high > st.reach() && !st.guard.confirmed(hb.Lead, hb.SentAt, max(st.span, nearPackets)) {
		st.r.stats.Implausible++
		return
	}
	st.r.stats.Heartbeats++
	if st.clock.fresh(now, hb.SentAt) {
		st.follow(from)
		st.named(hb.Name)
		st.alive(now)
		st.free = flags&wire.FlagFree != 0
		st.beatEvery = min(hb.Interval, maxBeat)
		st.nak.heard(hb)
		st.clock.heard(now, hb.SentAt)
		st.report.heard(hb)
		st.heldUp(hb)
		st.tellDuplicate()
	} else if st.down && !st.finished {
		return // it says nothing of a publisher that is lost
	}
	if !st.finished {
		if hb.Trail > st.next {
			st.extend(now, min(hb.Trail, hb.Lead))
			st.giveUp(now, hb.Trail, CauseGone)
		}
		st.extend(now, hb.Lead)
	}
	if flags&wire.FlagSolicit != 0 {
		st.report.solicited(st, now, hb)
	}
	if st.next == hb.Lead && st.report.sentNext != st.next {
		// We have everything: the publisher may rest. Not after every burst,
		// though: while data comes in small ones the cadence will do.
		st.statusAt = min(st.statusAt, max(now, st.report.sentAt.Add(minStatusEvery)))
	}
	if flags&wire.FlagEnd != 0 && !st.ended {
		st.ended, st.endAt = true, hb.Lead
		st.statusAt = now
	}
	st.finish(now)
	st.r.due = min(st.r.due, st.statusAt)
}

// reach is how far beyond all that is known a single packet is believed to tell of: no
// further than a window, as it is now or may be.
func (st *Stream) reach() uint64 { return max(st.span, uint64(st.r.cfg.WindowBytes/st.packetSize)) }

// follow answers to the address of the newest heartbeat from now on: a replayed
// packet may have started the stream, or the publisher's address may change. docs/protocol.md §3.3.
func (st *Stream) follow(from uint64) {
	peer, ok := st.r.peers.Retain(from)
	if !ok {
		return
	}
	st.r.peers.Forget(st.peer)
	if peer != st.peer {
		st.moved(st.r.peers.Address(from))
	}
	st.peer = peer
}

// alive notes a sign of life: a packet that did not come before, or a heartbeat that
// is newer than all others. Anything else may be replayed. docs/protocol.md §11.3.
func (st *Stream) alive(now Instant) {
	st.heard = now
	if st.down && !st.finished {
		st.down, st.downCause, st.upAt = false, CauseNone, now
		st.report.sent, st.statusAt, st.r.due = 0, now, now // it may have released us
		st.totals.publisherBack(st)
		st.r.sink.StreamUp(st)
	}
}

// finish ends the stream when all of it is delivered. docs/protocol.md §11.2.
func (st *Stream) finish(now Instant) {
	if !st.ended || st.finished || st.next < st.endAt || st.totals.wanted() || st.stalled {
		return
	}
	st.close(now)
	st.r.stats.StreamsEnded++
}

// close ends the stream.
func (st *Stream) close(now Instant) {
	st.finished, st.down, st.endedAt, st.statusAt = true, true, now, now
	st.r.due = min(st.r.due, now)
	st.returnLoans() // beyond the end
	st.deliverEnd(CauseNone)
	st.rest()
	st.r.sink.StreamDown(st, CauseNone)
}

// deliverEnd delivers the last event. What is known to exist beyond is lost: the
// publisher has taken it back, or the output had no room for it.
func (st *Stream) deliverEnd(cause Cause) {
	e := st.r.event(EventEnd, st.next)
	e.Count, e.Cause = st.high-st.next, cause
	st.r.stats.lose(e.Count, cause)
	st.out.Deliver(e)
}

// tick carries on what time brings. It reports true when the stream is to be
// removed.
func (st *Stream) tick(now Instant) bool {
	if st.finished {
		return now.Sub(max(st.endedAt, st.heard)) > endedKeep
	}
	if !st.down && now > st.lostAt() {
		st.lose(now)
	}
	st.earn()
	st.expire(now)
	if st.stalled {
		st.advance(now) // a reader may be gone, or have read on unseen
	}
	st.report.tick(st, now)
	return false
}

// patience is how long the publisher may be silent. docs/protocol.md §5.4.
func (st *Stream) patience() time.Duration { return max(lostFloor, lostBeats*st.beatEvery+slowBeat) }

// lostAt is until when the publisher may be silent.
func (st *Stream) lostAt() Instant {
	patience := st.patience()
	return st.r.excused(st.heard, patience).Add(patience)
}

// lose gives the publisher up as lost. The stream stays, in case it was only
// cut off. docs/protocol.md §11.3.
func (st *Stream) lose(now Instant) {
	cause := st.r.instances.silence(st)
	if st.giveUp(now, st.high, cause); st.finished {
		return // that was the end of it
	}
	st.down, st.downAt, st.downCause = true, now, cause
	st.statusAt = Never
	if cause == CauseRestart {
		st.r.stats.Restarts++
	} else {
		st.r.stats.StreamsLost++
	}
	st.totals.publisherLost(st)
	st.rest()
	st.r.sink.StreamDown(st, cause)
}

func (st *Stream) deadline() Instant {
	if st.finished {
		return min(st.statusAt, max(st.endedAt, st.heard).Add(endedKeep+1))
	}
	if st.down {
		return st.r.instances.removeAt(st)
	}
	d := min(st.statusAt, st.lostAt()+1)
	if st.missing > 0 {
		d = min(d, st.nak.at, st.nak.expireAt)
	}
	return d
}
