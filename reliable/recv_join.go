package reliable

import (
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// How a stream begins that its message layer joins (ReceiverConfig.Joins). Nothing is delivered before it has joined:
// packets wait in the window, where it may read them, and drop the first ones. Publishers wait for the receiver when
// those that waited are delivered.
type joining struct {
	phase joinPhase
	end   uint64 // joinBehind: behind the packets that waited
}

type joinPhase uint8

const (
	joinNone joinPhase = iota
	joinWaits
	joinBehind
)

// waits reports whether the stream does not deliver yet.
func (j *joining) waits() bool { return j.phase == joinWaits }

// Joining reports whether the message layer has still to join the stream.
func (st *Stream) Joining() bool { return st.win.join.waits() }

// join proceeds as far as possible. It reports whether the stream delivers packets from now on.
func (st *Stream) join(now Instant) bool {
	j := &st.win.join
	if j.waits() {
		if !st.contents.Join(now, st.r.judged(now)) {
			return false
		}
		st.start = st.next
		j.phase, j.end = joinBehind, max(st.tracked, st.high)
		st.report.by(now)
	}
	if j.phase == joinBehind && st.next >= j.end {
		j.phase = joinNone
		st.report.by(now) // from now on the publisher waits for this receiver
	}
	return true
}

// Waiting is a packet while the stream waits. The zero value: it has not arrived yet.
type Waiting struct {
	Arrived bool
	Runs    []byte       // nil if it cannot be read any more
	Control bool         // it may have other runs than messages
	Lost    uint64       // the packets from it up to this sequence are lost; 0: none
	Cause   events.Cause // why they are lost
}

// Waiting returns packet seq, which is not beyond the first one that has not arrived.
func (st *Stream) Waiting(now Instant, seq uint64) Waiting {
	if seq == st.tracked {
		switch {
		case !st.win.join.waits(): // the history is fetched
		case st.abandon.below > st.tracked: // packets beyond the window were given up
			return Waiting{Lost: st.abandon.below, Cause: st.abandon.cause}
		case st.tracked < st.high:
			st.extend(now, st.high)
		}
		return Waiting{}
	}
	switch e := st.win.entries.at(seq); e.state {
	case entryHeld, entryLent:
		return Waiting{Arrived: true, Runs: st.runs(e), Control: e.control}
	case entryGone:
		return Waiting{Lost: seq + 1, Cause: e.cause}
	}
	return Waiting{}
}

// BeginAt makes the stream begin with packet seq or later, while it waits: no packet before it is wanted. Between Fetch
// and Fetched it may deliver packets.
func (st *Stream) BeginAt(now Instant, seq uint64) {
	if h := &st.win.history; h.open {
		if h.first, st.start = seq, seq; seq > st.next {
			h.cause = events.CauseNone
			h.pass(st, seq)
		}
		st.advance(now)
		return
	}
	for ; st.next < min(seq, st.tracked); st.next++ {
		switch e := st.win.entries.at(st.next); e.state {
		case entryHeld, entryLent:
			st.drop(e)
		default:
			e.state = entryEmpty
		}
	}
	if seq > st.next {
		st.next, st.tracked, st.high = seq, seq, max(st.high, seq)
	}
	st.start = st.next
}

// EndsBefore reports whether the stream's end is known to be at sequence seq or before.
func (st *Stream) EndsBefore(seq uint64) bool { return st.life.ended && seq >= st.life.endAt }

// Expiry is when a limit that began at since expires, which stalls of the owner extend. Both are as in Running.Ran.
func (st *Stream) Expiry(since Instant, limit time.Duration) Instant {
	return Instant(st.r.expiry(upTime(since), limit))
}
