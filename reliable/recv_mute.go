package reliable

import (
	"math/bits"
	"time"
)

// Muting is how data packets of a stream are kept out of legs that need not bring it.
type Muting struct {
	Local uint8 // the legs within this host, bit i for leg i
	// Mute is told what a stream wishes of the leg that peer is of, in place of what it wished before.
	// It reports whether data can be kept out there. Nil: it cannot.
	Mute func(st *Stream, peer uint32, w Wish) bool
}

// Wish is what a stream wishes to become of its data packets on a leg. Several receivers may hear one
// stream by the same socket: data is kept out where one of them wishes that, and none needs it.
type Wish uint8

const (
	WishNone Wish = iota // it does not matter
	WishOut              // keep it out
	WishIn               // it is needed
)

// muting decides which legs need not bring a stream's data, because a leg within this host
// does: the fabric keeps it out of those before it costs anything. Heartbeats still come by
// them, and show that the leg works, and when the local one does not. docs/protocol.md §23.11, §23.12.
//
//	        the local leg has brought data, and then a heartbeat, so often as needed
//	┌───────┐ ─────────────────────────────────────────────► ┌───────┐
//	│ heard │                                                │ muted │
//	└───────┘ ◄───────────────────────────────────────────── └───────┘
//	        muteDoubts heartbeats have come by the muted leg, muteDoubt apart, and nothing
//	        by the local one; something is missing and does not come; the stream is down; its
//	        address changed
type muting struct {
	proofs  int     // new heartbeats that a local leg has brought behind new data, one after the other
	failed  int     // how often something did not come while legs were muted
	newest  uint64  // sent at, of the newest heartbeat that a local leg has brought
	brought uint64  // one beyond the newest sequence that a local leg had brought, at the last proof
	doubts  int     // newer heartbeats that a muted leg has brought since the local one brought anything
	doubt   Instant // when the last of them came
}

const (
	// muteAfter is how many proofs others are muted after, twice as many after each failure and muteMost
	// at most. What is proven for so long again is as if nothing had failed.
	muteAfter = 8
	muteMost  = 1024
	// muteAsks is how often a packet was asked for that the local leg does not bring: once by each way
	// back, one of which may be broken. muteWait is how long it is missing then: who answers may have had to wait
	// for a processor, or the answer lie behind much else.
	muteAsks = 2
	muteWait = 20 * time.Millisecond
	// muteDoubts is how many heartbeats another leg brings while the local one brings nothing
	// before that is taken for true, each in a batch of its own, for which muteDoubt stands. The first
	// may have been sent by the one leg and not yet by the other, and the second lie in a
	// batch before what the local leg has brought meanwhile.
	muteDoubts = 3
	muteDoubt  = 2 * time.Millisecond
)

func (r *Receiver) local(leg int) bool { return r.cfg.Muting.Local&(1<<leg) != 0 }

// proves notes a heartbeat of a local leg that has brought all its data below end, if it is new, and reports whether
// the leg has proven enough. Memory may have room for heartbeats alone: those that follow no data prove nothing.
func (m *muting) proves(sentAt, end uint64) bool {
	if sentAt <= m.newest {
		return false
	}
	m.newest = sentAt
	if end <= m.brought {
		return false
	}
	m.brought = end
	if m.proofs++; m.proofs >= 2*muteMost {
		m.failed = 0
	}
	return m.proofs >= min(muteAfter<<m.failed, muteMost)
}

// lacks reports whether a packet that was asked for so often, and is missing for so long, is one that
// the local leg does not bring.
func (m *muting) lacks(asked int, missing time.Duration) bool {
	return asked >= muteAsks && missing >= muteWait
}

// fails notes that the local leg did not bring something. muted: it had to.
func (m *muting) fails(muted bool) {
	m.proofs, m.doubts = 0, 0
	if muted && muteAfter<<m.failed < muteMost {
		m.failed++
	}
}

// proven notes a heartbeat that came by a leg, and mutes others when it may.
func (st *Stream) proven(sentAt uint64) {
	x, r := st.path.legs, st.r
	if !r.local(r.leg) || !x.mute.proves(sentAt, x.of[r.leg].seen.end) || st.life.down {
		return
	}
	for i := range x.n {
		if l := &x.of[i]; !r.local(i) && l.known && !l.muted() && !l.deaf {
			l.deaf = !x.wishes(st, i, WishOut)
		}
	}
}

// asksAgain notes that a missing packet is asked for, which may have been before.
func (st *Stream) asksAgain(now Instant, e *entry) {
	if x := st.path.legs; x != nil && x.mute.lacks(int(e.tries), st.r.up(now).sub(e.since)) {
		st.unbrought()
	}
}

// gaveUp notes that a packet is lost. Where its publisher has it no more, or the recovery deadline is
// over, a muted leg may have brought it.
func (st *Stream) gaveUp(c Cause) {
	if c = st.holding.cause(c); st.path.legs != nil && (c == CauseGone || c == CauseDeadline) {
		st.unbrought()
	}
}

// unbrought has all legs bring the stream, since the local one does not bring all, also where it is another
// receiver that keeps it out.
func (st *Stream) unbrought() {
	x, muted := st.path.legs, false
	for i := range x.n {
		if l := &x.of[i]; st.r.cfg.Muting.Local != 0 && !st.r.local(i) && l.known {
			muted = muted || l.muted()
			x.wishes(st, i, WishIn)
		}
	}
	x.mute.fails(muted)
}

// muted takes in a heartbeat of a muted leg, and reports whether it is one: what it says the
// local leg says, too, behind the data that came before it there.
func (st *Stream) muted(now Instant, from, sentAt uint64) bool {
	x := st.path.legs
	if !x.of[st.r.leg].muted() {
		return false
	}
	m := &x.mute
	if sentAt < m.newest {
		return true // an old one
	}
	st.heardBy(now)
	switch {
	case sentAt == m.newest:
		st.follow(from)
	case m.doubts > 0 && now.Sub(m.doubt) < muteDoubt:
	default:
		if m.doubts, m.doubt = m.doubts+1, now; m.doubts == muteDoubts {
			st.unmute(WishIn)
			return false
		}
	}
	return true
}

// unmute has the muted legs bring the stream again. Where that need not be it takes all wishes back.
func (st *Stream) unmute(w Wish) {
	x := st.path.legs
	if x == nil {
		return
	}
	x.mute.proofs, x.mute.doubts = 0, 0
	for i := range x.n {
		if x.of[i].wish != WishNone {
			x.wishes(st, i, w)
		}
	}
}

// wishes says what the stream wishes of a leg from now on, and reports whether that can be.
func (x *streamLegs) wishes(st *Stream, leg int, w Wish) bool {
	l := &x.of[leg]
	if l.wish == w {
		return true
	}
	can := st.r.cfg.Muting.Mute(st, l.peer, w) || w != WishOut
	if !can {
		w = WishNone
	}
	l.resumes = l.resumes || l.muted()
	l.wish = w
	return can
}

// muted reports whether the leg need not bring the stream's data.
func (l *streamLeg) muted() bool { return l.wish == WishOut }

// of is the local ones of so many legs, where there is something to mute: some are local, and
// not all.
func (m *Muting) of(legs int) uint8 {
	if n := bits.OnesCount8(m.Local); m.Mute == nil || n >= legs {
		return 0
	}
	return m.Local
}
