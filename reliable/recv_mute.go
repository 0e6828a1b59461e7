package reliable

import (
	"math/bits"
	"time"
)

// Muting is how data packets of a stream are kept out of legs that need not bring it.
type Muting struct {
	Local uint8 // the legs within this host, bit i for leg i
	// Mute keeps the data packets of a stream out of the leg that peer is of, or lets them in
	// again, and reports whether it can. Nil: it cannot.
	Mute func(st *Stream, peer uint32, on bool) bool
}

// muting decides which legs need not bring a stream's data, because a leg within this host
// does: the fabric keeps it out of those before it costs anything. Heartbeats still come by
// them, and show that the leg works, and when the local one does not. docs/protocol.md §23.11.
//
//	        the local leg has brought muteAfter heartbeats
//	┌───────┐ ─────────────────────────────────────────────► ┌───────┐
//	│ heard │                                                │ muted │
//	└───────┘ ◄───────────────────────────────────────────── └───────┘
//	        muteDoubts heartbeats have come by the muted leg, muteDoubt apart, and nothing
//	        by the local one; the stream is down; its address changed
type muting struct {
	proofs int     // new heartbeats that a local leg has brought, one after the other
	newest uint64  // sent at, of the newest of those
	doubts int     // newer ones that a muted leg has brought since the local one brought anything
	doubt  Instant // when the last of them came
}

const (
	// muteAfter is how many heartbeats a local leg brings before others are muted.
	muteAfter = 8
	// muteDoubts is how many heartbeats another leg brings while the local one brings nothing
	// before that is taken for true, each in a batch of its own, for which muteDoubt stands. The first
	// may have been sent by the one leg and not yet by the other, and the second lie in a
	// batch before what the local leg has brought meanwhile.
	muteDoubts = 3
	muteDoubt  = 2 * time.Millisecond
)

func (r *Receiver) local(leg int) bool { return r.cfg.Muting.Local&(1<<leg) != 0 }

// proven notes a heartbeat that came by a leg, and mutes others when it may.
func (st *Stream) proven(sentAt uint64) {
	x, r := st.path.legs, st.r
	if !r.local(r.leg) || sentAt <= x.mute.newest {
		return
	}
	x.mute.newest = sentAt
	if x.mute.proofs++; x.mute.proofs < muteAfter || st.life.down {
		return
	}
	for i := range x.n {
		if l := &x.of[i]; !r.local(i) && l.known && !l.muted && !l.deaf {
			l.muted = r.cfg.Muting.Mute(st, l.peer, true)
			l.deaf = !l.muted
		}
	}
}

// muted takes in a heartbeat of a muted leg, and reports whether it is one: what it says the
// local leg says, too, behind the data that came before it there.
func (st *Stream) muted(now Instant, from, sentAt uint64) bool {
	x := st.path.legs
	if !x.of[st.r.leg].muted {
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
			st.unmute()
			return false
		}
	}
	return true
}

// unmute has all legs bring the stream again.
func (st *Stream) unmute() {
	x := st.path.legs
	if x == nil {
		return
	}
	x.mute.proofs, x.mute.doubts = 0, 0
	for i := range x.n {
		x.unmute(st, i)
	}
}

func (x *streamLegs) unmute(st *Stream, leg int) {
	if l := &x.of[leg]; l.muted {
		st.r.cfg.Muting.Mute(st, l.peer, false)
		l.muted, l.resumes = false, true
	}
}

// of is the local ones of so many legs, where there is something to mute: some are local, and
// not all.
func (m *Muting) of(legs int) uint8 {
	if n := bits.OnesCount8(m.Local); m.Mute == nil || n >= legs {
		return 0
	}
	return m.Local
}
