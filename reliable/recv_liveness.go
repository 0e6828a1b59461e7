package reliable

import (
	"math"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Heartbeats, silence and the end of a stream at the receiver.

// liveness is the state of a stream's publisher: up, down because it is silent, ended while packets are still to be
// delivered, or finished.
type liveness struct {
	heard          upTime        // last sign of life
	upAt           upTime        // when it last came up
	heartbeatEvery time.Duration // its advertised heartbeat interval
	old            int           // heartbeats in a row that were not new; negative: reported
	free           bool          // it waits for no member
	continued      bool          // the stream was removed before, and continues where it stopped

	down      bool // silent, or finished
	downAt    upTime
	downCause events.Cause // why it is silent, or CauseNone
	downDue   bool         // the output has not learned it yet

	endStated bool // one heartbeat has stated the end of the stream
	ended     bool // a second one, or silence, has confirmed it
	endAt     uint64
	finished  bool // everything was delivered
	endedAt   upTime
}

// gone reports whether the publisher fell silent after its end, before the output had room for all packets.
func (x *liveness) gone() bool {
	return x.down && x.ended && !x.finished && x.downCause == events.CauseNone
}

// heartbeat processes a heartbeat. docs/protocol §5.10, §9.4.
func (st *Stream) heartbeat(now Instant, from uint64, flags wire.Flags, hb *wire.Heartbeat) {
	fresh, before := st.clock.fresh(now, hb.SentAt), st.guard
	impossible := st.guard.impossible(hb.Lead, st.high, st.life.down)
	if impossible || hb.Lead > st.high && hb.Lead-st.high > st.reach() &&
		!st.guard.confirmed(hb.Lead, hb.SentAt, max(st.win.span, nearPackets)) {
		st.r.stats.Implausible++
		if again := st.path.legs != nil && before == st.guard; !impossible && (again || !before.suspects) {
			st.r.stats.FarAhead++
		}
		if fresh && st.path.legs != nil {
			st.heardBy(now) // forged or not, the leg works
		}
		return
	}
	st.r.stats.Heartbeats++
	if st.path.legs != nil && st.beat(now, from, hb, fresh) {
		return
	}
	if st.life.old++; !fresh && st.life.old >= oldHeartbeats && now.Sub(st.clock.at) > lostFloor {
		// Data still arrives: a forged heartbeat has made the true ones old, and replies go to its source.
		st.life.old = math.MinInt
		st.fault(events.FaultClock)
	}
	if fresh {
		st.life.old = 0
		st.follow(from)
		st.named(hb.Name)
		st.alive(now)
		st.life.free = flags&wire.FlagFree != 0
		st.life.heartbeatEvery = min(hb.Interval, maxHeartbeat)
		st.nak.heard(hb)
		st.clock.heard(now, hb.SentAt)
		st.clock.timer.heard(st, hb)
		st.report.heard(hb)
		st.heldUp(hb)
		st.report.heartbeat(st, now, flags, hb)
		st.reportDuplicate()
	} else if st.life.down && !st.life.finished {
		return // it proves nothing about a publisher that is lost
	}
	if !st.life.finished {
		if hb.Trail > st.next {
			st.extend(now, min(hb.Trail, hb.Lead))
			st.giveUp(now, hb.Trail, events.CauseGone)
		}
		st.extend(now, hb.Lead)
	}
	if flags&wire.FlagSolicit != 0 {
		st.report.solicited(st.r.cfg.Rand, now, hb)
	}
	if st.next == hb.Lead && st.report.sentNext != st.next {
		// The receiver has everything, so the publisher may rest. While data comes in small bursts, the cadence suffices.
		st.report.by(max(now, st.report.sentAt.Add(minStatusEvery)))
	}
	if fresh && !st.life.finished {
		st.ending(now, flags, hb)
	}
	st.finish(now)
}

// ending processes what a new heartbeat states about the end. A single one may be forged: the end counts after a second
// one, or silence. docs/protocol §11.5, §11.6.
func (st *Stream) ending(now Instant, flags wire.Flags, hb *wire.Heartbeat) {
	x := &st.life
	if flags&wire.FlagEnd == 0 || st.high > x.endAt {
		x.endStated, x.ended = false, false
	}
	switch {
	case flags&wire.FlagEnd == 0 || x.ended:
	case hb.Lead < st.high:
		st.r.stats.Implausible++ // later packets are known to exist
	case x.endStated && hb.Lead == x.endAt:
		x.ended = true
		st.report.by(now)
		st.advance(now)
	default:
		x.endStated, x.endAt = true, hb.Lead
		st.report.by(now)
	}
}

// revive forgets the end of a stream that is kept, because its publisher continues it. New packets follow where the
// stream stopped. docs/protocol §11.6.
func (r *Receiver) revive(st *Stream) {
	next := st.next
	r.remove(st)
	r.tombstones.remember(st.Instance, formerStream{evicted: true, next: next})
}

// reach is how far beyond all known sequences a single packet is plausible: the window, at its present or its
// configured size.
func (st *Stream) reach() uint64 { return max(st.win.span, uint64(st.r.cfg.WindowBytes/st.packetSize)) }

// follow sends replies to the source of the newest heartbeat from now on: a replayed packet may have started the
// stream, or the publisher's address may have changed. docs/protocol §3.3.
func (st *Stream) follow(from uint64) {
	peer, ok := st.r.peers.Retain(from)
	if !ok {
		return
	}
	to, known := &st.path.peer, true
	if x := st.path.legs; x != nil {
		l := &x.of[st.r.leg]
		to, known, l.known = &l.peer, l.known, true
	}
	if known {
		st.r.peers.Forget(*to)
	}
	if known && peer != *to {
		st.moved(st.r.peers.Address(from))
	}
	*to = peer
}

// alive records a sign of life: a packet that did not arrive before, or a new heartbeat. Other packets may be replays.
// docs/protocol §11.3.
func (st *Stream) alive(now Instant) {
	st.life.heard = st.r.up(now)
	if st.life.down {
		st.back(now)
	}
}

// back records that a lost publisher is received again.
func (st *Stream) back(now Instant) {
	if st.life.gone() {
		st.life.down = false // its silence was not reported
	}
	if st.life.down && !st.life.finished {
		st.life.down, st.life.downCause, st.life.upAt = false, events.CauseNone, st.r.up(now)
		st.report.sent = 0 // it may have removed this receiver as a member
		st.report.by(now)
		st.life.downDue = false // if it is, the output has not learned that the publisher was lost
		st.r.sink.StreamUp(st)
	}
}

// finish ends the stream if everything was delivered. A stream with a lost publisher does not end before the publisher
// is received again. docs/protocol §11.2.
func (st *Stream) finish(now Instant) {
	if st.life.ended { // apart from finishNow, so that this check is inlined
		st.finishNow(now)
	}
}

func (st *Stream) finishNow(now Instant) {
	if !st.life.finished && st.high > st.life.endAt {
		st.life.endStated, st.life.ended = false, false // the stream continues
		return
	}
	if st.life.down && !st.life.gone() || st.life.finished || st.next < st.life.endAt || st.stalled {
		return
	}
	st.close(now)
	st.r.stats.StreamsEnded++
}

func (st *Stream) close(now Instant) {
	st.life.finished, st.life.down, st.life.endedAt = true, true, st.r.up(now)
	st.report.by(now)
	st.plain.known = false // data beyond the end takes the slow path
	st.returnLoans()       // of packets beyond the end
	st.deliverEnd(events.CauseNone)
	st.freeIfEmpty()
	st.r.sink.StreamDown(st, events.CauseNone)
}

// deliverEnd delivers the last event. Packets known to exist beyond the end are lost: the publisher has withdrawn them,
// or the output had no room for them.
func (st *Stream) deliverEnd(cause events.Cause) {
	e := st.r.event(EventEnd, st.next)
	e.Count, e.Cause = st.high-st.next, cause
	countLost(&st.r.stats, e.Count, e.LostBy())
	st.win.counts.Lost += e.Count
	st.out.Deliver(e)
}

// tick processes timers. It reports whether the stream is to be removed.
func (st *Stream) tick(now Instant) bool {
	if st.life.finished {
		return st.r.up(now) > st.endedUntil()
	}
	if !st.life.down && st.r.judgedUp(now) > st.lostAt() {
		st.lose(now)
	}
	st.growWindow()
	st.expire(now)
	if st.stalled || st.win.join.phase == joinBehind {
		st.advance(now) // a reader may have left, or may have read on without a notice
	}
	st.report.tick(st, now)
	return false
}

// silenceLimit is how long the publisher may be silent. docs/protocol §5.4.
func (x *liveness) silenceLimit() time.Duration {
	return max(lostFloor, lostHeartbeats*x.heartbeatEvery+slowHeartbeat)
}

// lostAt is when a silent publisher counts as lost.
func (st *Stream) lostAt() upTime { return st.r.expiry(st.life.heard, st.life.silenceLimit()) }

// endedUntil is until when an ended stream answers its publisher.
func (st *Stream) endedUntil() upTime { return max(st.life.endedAt, st.life.heard).add(endedKeep) }

// lose marks the publisher as lost. The stream is kept in case the publisher was only unreachable. docs/protocol §11.3.
func (st *Stream) lose(now Instant) {
	st.life.ended = st.life.endStated && st.high <= st.life.endAt
	if st.over() {
		st.depart(now)
		return
	}
	st.life.ended = false // not before the publisher is received again
	cause := st.r.instances.silence(st)
	old := st.life.old
	if x := st.path.legs; x != nil {
		old = x.old() // copies on other legs do not count
	}
	if old >= oldHeartbeats {
		st.fault(events.FaultClock)
	}
	st.giveUp(now, st.high, cause)
	st.life.down, st.life.downAt, st.life.downCause = true, st.r.up(now), cause
	st.report.stop()
	if st.win.join.waits() {
		st.advance(now)
	}
	if cause == events.CauseRestart {
		st.r.stats.Restarts++
	} else {
		st.r.stats.StreamsLost++
	}
	st.RepeatDown()
	st.freeIfEmpty()
	st.r.sink.StreamDown(st, cause)
}

// RepeatDown makes an EventDown due, when the output has everything. The publisher is lost.
func (st *Stream) RepeatDown() {
	st.life.downDue = true
	st.flushDown()
}

// flushDown delivers an EventDown that is due, if the output has everything before it, and room.
func (st *Stream) flushDown() {
	if !st.life.downDue || st.next < st.high || st.win.history.open || st.win.join.waits() {
		return
	}
	if !st.out.Room() {
		st.stalled = true
		return
	}
	st.life.downDue = false
	e := st.r.event(EventDown, st.next)
	e.Cause = st.life.downCause
	st.out.Deliver(e)
}

// oldHeartbeats is how many heartbeats in a row that are not new are reported as a fault: fewer may be copies.
const oldHeartbeats = 4

// LostFor is how long the publisher has been lost; 0: it is not.
func (st *Stream) LostFor(now Instant) time.Duration {
	if !st.life.down || st.life.finished || st.life.gone() {
		return 0
	}
	return max(st.r.up(now).sub(st.life.downAt), time.Millisecond) // above 0, even if it was lost just now
}

// over reports whether the publisher has stated the end of the stream, and no packet up to the end is
// missing.
func (st *Stream) over() bool {
	return st.life.ended && st.nak.missing == 0 && st.tracked >= st.life.endAt
}

// depart ends the stream of a publisher that fell silent when the stream was over: now, or when the output has room.
// docs/protocol §11.2.
func (st *Stream) depart(now Instant) {
	st.life.down, st.life.downAt, st.life.downCause = true, st.r.up(now), events.CauseNone
	st.report.stop()
	st.advance(now)
}

func (st *Stream) deadline() Instant {
	if st.life.finished {
		return min(st.report.at, st.r.when(st.endedUntil()+1))
	}
	if st.life.down {
		if !st.r.instances.superseded(st) {
			return Never
		}
		return st.r.when(st.life.removeAt() + 1)
	}
	d := min(st.report.at, st.r.when(st.lostAt()+1))
	if st.nak.missing > 0 {
		d = min(d, st.nak.at, st.nak.expireAt)
	}
	if st.win.join.waits() {
		d = min(d, st.contents.JoinDue())
	}
	if h := &st.win.history; h.waits && h.open {
		d = min(d, st.r.when(st.r.expiry(h.since, st.r.cfg.Deadline)))
	}
	return d
}
