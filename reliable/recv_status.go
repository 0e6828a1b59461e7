package reliable

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// reportState schedules the statuses to a stream's publisher, and records the last one. docs/protocol §7.1.
type reportState struct {
	wake      *wakeup
	every     time.Duration // advertised cadence
	sentAt    Instant
	sentNext  uint64
	sentLimit uint64
	sent      int // statuses sent
	lost      uint32
	full      bool    // the next status has all that statuses may have
	changeAt  Instant // a change of subscriptions makes no status due before
	at        Instant // when the next status is due at the latest
	share     streamShare
	leaving   bool // this receiver closes
	farewells int  // leaving statuses still to send, because no topic is wanted any more
}

// by makes a status due at that time at the latest.
func (p *reportState) by(at Instant) {
	p.at = min(p.at, at)
	p.wake.by(p.at)
}

// stop cancels statuses: the publisher is lost.
func (p *reportState) stop() { p.at = Never }

// changed makes a status due because subscriptions changed. docs/protocol §7.1.
func (p *reportState) changed(now Instant) { p.by(max(now, p.changeAt)) }

func (p *reportState) heard(hb *wire.Heartbeat) { p.every = max(hb.StatusInterval, minStatusEvery) }

// solicited makes a status due, with a random delay if there are many receivers. docs/protocol §7.1.
func (p *reportState) solicited(rng *rand.Rand, now Instant, hb *wire.Heartbeat) {
	var spread time.Duration
	if hb.Receivers > 8 {
		spread = time.Duration(rng.Int64N(int64(hb.Receivers) * int64(20*time.Microsecond)))
	}
	p.by(now.Add(spread))
}

// tick makes a status due when the limit has risen enough. docs/protocol §7.1.
func (p *reportState) tick(st *Stream, now Instant) {
	if st.life.down {
		return
	}
	limit := st.limit(now)
	room := min(st.win.span, st.share(now))
	if limit > p.sentLimit && limit-p.sentLimit >= max(1, room/4) {
		p.by(now)
	}
}

// appendStatus appends the status that is due to buf, or returns nil. docs/protocol §7.1, §7.6.
func (st *Stream) appendStatus(now Instant, buf []byte) []byte {
	p := &st.report
	if now < p.at {
		return nil
	}
	unwanted := (!st.r.wanted || st.life.down) && !p.leaving && !st.life.finished
	if unwanted && p.farewells == 0 {
		p.at = Never // no subscription wants the stream, or its publisher is lost
		return nil
	}
	h := st.header()
	if p.leaving || !st.r.wanted { // also to a publisher that has ended: an answer must not readmit this receiver
		h.Flags |= wire.FlagLeaving
	}
	if st.win.history.open || st.win.join.phase != joinNone {
		h.Flags |= wire.FlagJoining
	}
	s := &st.r.status
	*s = wire.Status{Receiver: st.r.cfg.ID, Next: st.next, Limit: st.limit(now), Echo: st.clock.newest,
		Lost: p.lost, Unread: uint32(st.unread())}
	// Topics, name and tag take space: they go with statuses at the cadence, not with those that flow control triggers.
	flags, topics, full := st.contents.Status(s, now.Sub(p.sentAt) >= p.every/2 || p.sent < joinStatuses || p.full)
	h.Flags |= flags
	if full {
		p.full, p.changeAt = false, now.Add(minStatusEvery)
		s.Name, s.Tag = st.r.name, st.r.tag
	}
	if st.clock.newest != 0 {
		s.EchoDelay = now.Sub(st.clock.at)
	}
	p.sentAt, p.sentNext, p.sentLimit = now, st.next, s.Limit
	p.sent++
	p.at = now.Add(p.every)
	if p.sent < joinStatuses {
		p.at = now.Add(min(p.every, joinEvery<<p.sent))
	}
	switch {
	case unwanted: // sent several times: it is not answered
		p.farewells--
		p.at = now.Add(farewellEvery)
	case st.life.finished || p.leaving:
		p.at = Never
	}
	st.r.stats.Statuses++
	st.win.history.ask(st, now)
	return st.withChecksum(wire.AppendStatus(buf, h, s, topics))
}

// interest is what this bus states in statuses: whether it wants messages of the group, its name and its tag.
type interest struct {
	wanted    bool
	name, tag []byte
}

// SetWanted sets whether messages of the group are wanted. If not, nothing is requested, and statuses say that the
// receiver leaves.
func (r *Receiver) SetWanted(wanted bool) { r.wanted = wanted }

// WantedChanged is Report after what is wanted has changed. If no messages are wanted, the receiver sends leaving
// statuses.
func (r *Receiver) WantedChanged(now Instant) {
	r.counted.set(&r.cfg, true)
	for _, st := range r.list {
		st.report.farewells = 0
		if !r.wanted && st.report.sent > 0 {
			st.report.farewells = farewells
		}
	}
	r.Report(now)
}

// Report makes statuses due to all publishers, with all of the message layer's part.
func (r *Receiver) Report(now Instant) {
	for _, st := range r.list {
		st.report.full = true
		st.report.changed(now)
	}
}

// Report makes a status due at that time. full: with all of the message layer's part.
func (st *Stream) Report(at Instant, full bool) {
	st.report.full = st.report.full || full
	st.report.by(at)
}

// heartbeat makes a status due if the message layer answers a new heartbeat.
func (p *reportState) heartbeat(st *Stream, now Instant, flags wire.Flags, hb *wire.Heartbeat) {
	if st.contents.Heartbeat(flags, hb.Asked) {
		p.full = true
		p.solicited(st.r.cfg.Rand, max(now, p.changeAt), hb)
	}
}

// limit is the first sequence for which there is no room. Room ends with the window, of which readers still use a part,
// and with the stream's share of the fabric's receive buffer, which begins at high. docs/protocol §7.3.
func (st *Stream) limit(now Instant) uint64 {
	unread, held := st.out.Backlog()
	backlog := uint64(unread + held)
	window := st.next
	if backlog < st.win.span {
		window += st.win.span - backlog
	}
	return max(st.next, min(window, st.high+st.share(now)))
}

// unread is how many packets readers that hold the stream up have not read.
func (st *Stream) unread() uint64 {
	unread, _ := st.out.Backlog()
	return uint64(unread)
}

// share is the stream's share of the fabric's receive buffer, in packets.
func (st *Stream) share(now Instant) uint64 {
	return st.r.cfg.Buffer.promise(st.report.share.bufferShare, now)
}

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
