package reliable

import (
	"math/rand/v2"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// reportState schedules the statuses to a stream's publisher, and records the last one. docs/protocol §7.1.
type reportState struct {
	wake      *wakeup
	every     time.Duration // advertised cadence
	sentAt    Instant
	sentNext  uint64
	sentLimit uint64
	sent      int    // statuses sent
	asked     uint64 // topic that the publisher asked for last; 0: none
	lost      uint32
	topics    bool    // the next status names topics
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

func (p *reportState) heard(hb *wire.Heartbeat) {
	p.every = max(hb.StatusInterval, minStatusEvery)
}

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
	unwanted := (!st.r.wanting() || st.life.down) && !p.leaving && !st.life.finished
	if unwanted && p.farewells == 0 {
		p.at = Never // no subscription wants the stream, or its publisher is lost
		return nil
	}
	h := st.header()
	if p.leaving || !st.r.wanting() { // also to a publisher that has ended: an answer must not readmit this receiver
		h.Flags |= wire.FlagLeaving
	}
	if st.win.history.open || st.win.state.joining() {
		h.Flags |= wire.FlagJoining
	}
	if st.win.state.wants() {
		h.Flags |= wire.FlagWantState
	}
	if st.totals.wanted() || st.topics.repertoire.asked || st.topics.names.open {
		h.Flags |= wire.FlagWantTopics
	}
	// Topics, name and tag take space: they go with statuses at the cadence, not with those that flow control triggers.
	var topics []uint64
	var name, tag []byte
	if now.Sub(p.sentAt) >= p.every/2 || p.sent < joinStatuses || p.topics {
		p.topics, p.changeAt = false, now.Add(minStatusEvery)
		topics, name, tag = st.namedTopics(), st.r.name, st.r.tag
		if st.r.names.hold {
			h.Flags |= wire.FlagMoreTopics
		}
	}
	s := wire.Status{Receiver: st.r.cfg.ID, Next: st.next, Limit: st.limit(now), Echo: st.clock.newest,
		Lost: p.lost, Unread: uint32(st.unread()), Name: name, Tag: tag}
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
	return st.withChecksum(wire.AppendStatus(buf, h, &s, topics))
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
