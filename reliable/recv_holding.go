package reliable

import (
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// holding is what a stream's publisher states about this receiver: that it blocks the publisher, or that it was
// released. docs/protocol §8.6, §8.7.
type holding struct {
	held     time.Duration // how long, by the newest heartbeat that names the holder; 0: another receiver is the holder
	released bool          // and has not caught up since
	heldFor  time.Duration // how long it had blocked the publisher when released
	unnamed  unnamedRounds // since a heartbeat last named this receiver as released
}

// heard processes a new heartbeat. It reports whether there is something to report about this receiver.
func (h *holding) heard(hb *wire.Heartbeat, receiver uint64, caughtUp bool) (news bool) {
	named := hb.Holder == receiver
	before := h.held
	switch {
	case named && hb.Released:
		if h.released {
			h.unnamed = unnamedRounds{}
			return false // the same release
		}
		h.released, h.heldFor, h.held = true, hb.Held, 0
	case named:
		*h = holding{held: max(hb.Held, time.Millisecond)}
	case !hb.Released: // it names another receiver as the holder
		h.held = 0
	}
	if h.released && !named && h.unnamed.over(hb) && caughtUp {
		*h = holding{} // else the publisher would have named it again
		return true
	}
	return named || before != 0 && h.held == 0
}

// unnamedRounds detects, by heartbeats that do not name this receiver, that it is no longer released: heartbeats name
// all released members in turn. docs/protocol §8.7.
type unnamedRounds struct {
	holders int            // heartbeats in a row that name a holder
	others  map[uint64]int // how often each other receiver was named as released
}

// roundsUnnamed is how many rounds without this receiver show that it is no longer released: one heartbeat may be lost,
// or name another member ahead of its turn.
const roundsUnnamed = 3

// maxOthers bounds the others counted: a publisher has at most as many members (§8.8).
const maxOthers = 1024

// over processes a heartbeat that does not name this receiver, and reports whether the receiver is not released.
func (u *unnamedRounds) over(hb *wire.Heartbeat) bool {
	switch {
	case hb.Holder == 0: // no member is a holder or released
		return true
	case !hb.Released: // while members are released, every second heartbeat names the holder
		u.holders++
		return u.holders >= roundsUnnamed
	}
	if u.holders = 0; u.others == nil || len(u.others) >= maxOthers {
		u.others = make(map[uint64]int)
	}
	u.others[hb.Holder]++
	return u.others[hb.Holder] >= roundsUnnamed
}

// cause returns the cause to report for a packet given up for c. If the publisher has released this receiver, that is
// the cause: a publisher that waits would have repaired the packet, or sent less at once.
func (h *holding) cause(c events.Cause) events.Cause {
	if h.released && (c == events.CauseGone || c == events.CauseOverrun || c == events.CauseDeadline) {
		return events.CauseReleased
	}
	return c
}

// Holding is how long this receiver has held the stream's publisher up, as the publisher states; zero if it does not.
// released: the publisher has released it after that time, and it has not caught up since.
func (st *Stream) Holding() (held time.Duration, released bool) {
	if st.holding.released {
		return st.holding.heldFor, true
	}
	return st.holding.held, false
}

// TakeHolding returns the streams that have reported since the last call that this receiver holds them up, no longer
// does, or was released. The slice is valid until the next call of a method of r.
func (r *Receiver) TakeHolding() []*Stream {
	all := r.heldUp
	r.heldUp = r.heldUp[:0]
	return all
}

// heldUp processes what a heartbeat states about this receiver.
func (st *Stream) heldUp(hb *wire.Heartbeat) {
	if st.holding.heard(hb, st.r.cfg.ID, st.next >= hb.Lead) && !slices.Contains(st.r.heldUp, st) {
		st.r.heldUp = append(st.r.heldUp, st)
	}
}
