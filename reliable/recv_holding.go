package reliable

import (
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// holding is what a stream's publisher says of this receiver: that it holds the
// publisher up, or that it is not waited for any more. docs/protocol §8.6, §8.7.
type holding struct {
	held     time.Duration // as of the newest heartbeat that names the holder; 0: another receiver
	released bool          // until this receiver has caught up
	heldFor  time.Duration // how long it had held the publisher up when it was released
	unnamed  unnamedRounds // since a heartbeat named this receiver as released
}

// heard takes in a heartbeat that is newer than all before. It reports whether it says
// anything about this receiver that may have to be reported.
func (h *holding) heard(hb *wire.Heartbeat, receiver uint64, caughtUp bool) (news bool) {
	named := hb.Holder == receiver
	before := h.held
	switch {
	case named && hb.Released:
		if h.released {
			h.unnamed = unnamedRounds{}
			return false // it is the same release
		}
		h.released, h.heldFor, h.held = true, hb.Held, 0
	case named:
		*h = holding{held: max(hb.Held, time.Millisecond)}
	case !hb.Released: // it names the holder, which is another receiver
		h.held = 0
	}
	if h.released && !named && h.unnamed.over(hb) && caughtUp {
		*h = holding{} // or the publisher would say so again
		return true
	}
	return named || before != 0 && h.held == 0
}

// unnamedRounds finds out from heartbeats that do not name this receiver that it is none of
// those that were released: heartbeats name these by turns. docs/protocol §8.7.
type unnamedRounds struct {
	holders int            // in a row that name one that holds the publisher up
	others  map[uint64]int // how often each of the others was named as released
}

// roundsUnnamed is how many turns without this receiver show that it is not released any more:
// one heartbeat may be lost, or name another ahead of its turn.
const roundsUnnamed = 3

// mostOthers is how many others are counted at a time: a publisher keeps account of no more (§8.8).
const mostOthers = 1024

// over takes in a heartbeat that does not name this receiver, and reports whether it is not
// among those that were released.
func (u *unnamedRounds) over(hb *wire.Heartbeat) bool {
	switch {
	case hb.Holder == 0: // none is
		return true
	case !hb.Released: // every second heartbeat, while any is
		u.holders++
		return u.holders >= roundsUnnamed
	}
	if u.holders = 0; u.others == nil || len(u.others) >= mostOthers {
		u.others = make(map[uint64]int)
	}
	u.others[hb.Holder]++
	return u.others[hb.Holder] >= roundsUnnamed
}

// cause returns why a packet is lost that was given up for c. While the publisher does not wait for
// this receiver that is why: it would have sent the packet again, or not so many at once.
func (h *holding) cause(c events.Cause) events.Cause {
	if h.released && (c == events.CauseGone || c == events.CauseOverrun || c == events.CauseDeadline) {
		return events.CauseReleased
	}
	return c
}

// Holding is how long this receiver has held the stream's publisher up, as that says;
// zero if it does not. released says that the publisher does not wait for it any more,
// after having been held for so long, and that it has not caught up since.
func (st *Stream) Holding() (held time.Duration, released bool) {
	if st.holding.released {
		return st.holding.heldFor, true
	}
	return st.holding.held, false
}

// TakeHolding returns the streams that have reported since the last call that this receiver holds them up, no longer
// does, or was released. The slice is valid until the next call of the receiver.
func (r *Receiver) TakeHolding() []*Stream {
	all := r.heldUp
	r.heldUp = r.heldUp[:0]
	return all
}

// heldUp takes in what a heartbeat says of this receiver.
func (st *Stream) heldUp(hb *wire.Heartbeat) {
	if st.holding.heard(hb, st.r.cfg.ID, st.next >= hb.Lead) && !slices.Contains(st.r.heldUp, st) {
		st.r.heldUp = append(st.r.heldUp, st)
	}
}
