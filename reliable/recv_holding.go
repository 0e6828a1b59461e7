package reliable

import (
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// holding is what a stream's publisher says of this receiver: that it holds the
// publisher up, or that it is not waited for any more. docs/protocol.md §8.6, §8.7.
type holding struct {
	held     time.Duration // as of the newest heartbeat that says who holds; 0: not this receiver
	released bool          // until this receiver has caught up
	heldFor  time.Duration // how long it had held the publisher up when it was released
}

// heard takes in a heartbeat that is newer than all before. It reports whether it says
// anything of this receiver that may have to be told.
func (h *holding) heard(hb *wire.Heartbeat, receiver uint64, caughtUp bool) (news bool) {
	named := hb.Holder == receiver
	before := h.held
	switch {
	case named && hb.Released:
		h.released, h.heldFor, h.held = true, hb.Held, 0
	case named:
		h.released, h.held = false, max(hb.Held, time.Millisecond)
	case !hb.Released: // it says who holds, and that is not us
		h.held = 0
	}
	if h.released && !named && caughtUp {
		h.released = false // or the publisher would say so again
	}
	return named || before != 0 && h.held == 0
}

// cause returns why a packet is lost that was given up for c. While the publisher does not wait for
// this receiver that is why: it would have sent the packet again, or not so many at once.
func (h *holding) cause(c Cause) Cause {
	if h.released && (c == CauseGone || c == CauseOverrun || c == CauseDeadline) {
		return CauseReleased
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

// TakeHolding returns the streams whose publishers have said since the last call that
// this receiver holds them up, does not any more, or was released. The slice is valid
// until the next call of the receiver.
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
