package reliable

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// reportState decides when a stream's publisher gets a status, and what was in the last one. docs/protocol §7.1.
type reportState struct {
	every     time.Duration // advertised cadence
	sentAt    Instant
	sentNext  uint64
	sentLimit uint64
	sent      int    // statuses so far
	asked     uint64 // topic that the publisher has asked for last; 0: none
	lost      uint32
	topics    bool    // the next one names our topics
	changeAt  Instant // a change of what is wanted makes none due before
	at        Instant // when the next one is due at the latest
	share     streamShare
	leaving   bool // this receiver goes
	farewells int  // still to be said, because nothing is wanted any more
}

func (p *reportState) heard(hb *wire.Heartbeat) {
	p.every = max(hb.StatusInterval, minStatusEvery)
}

// solicited makes a status due, spread a little where there are many of us. docs/protocol §7.1.
func (p *reportState) solicited(st *Stream, now Instant, hb *wire.Heartbeat) {
	var spread time.Duration
	if hb.Receivers > 8 {
		spread = time.Duration(st.r.cfg.Rand.Int64N(int64(hb.Receivers) * int64(20*time.Microsecond)))
	}
	st.report.at = min(st.report.at, now.Add(spread))
}

// tick makes a status due when the publisher needs to know how much room we have made. docs/protocol §7.1.
func (p *reportState) tick(st *Stream, now Instant) {
	if st.life.down {
		return
	}
	limit := st.limit(now)
	room := min(st.win.span, st.share(now))
	if limit > p.sentLimit && limit-p.sentLimit >= max(1, room/4) {
		st.report.at = now
	}
	st.r.due = min(st.r.due, st.report.at)
}

// appendStatus appends the status that is due to buf, or returns nil. docs/protocol §7.1, §7.6.
func (st *Stream) appendStatus(now Instant, buf []byte) []byte {
	p := &st.report
	if now < st.report.at {
		return nil
	}
	unwanted := !st.r.wanting() && !st.report.leaving && !st.life.finished
	if unwanted && st.report.farewells == 0 {
		st.report.at = Never // no subscription here wants the stream: nothing to report
		return nil
	}
	h := st.header()
	if st.report.leaving || !st.r.wanting() { // also of one that has ended: an answer must not admit the receiver again
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
	// Topics, name and tag take room: they go with statuses at the cadence, not with those that flow control draws.
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
	st.report.at = now.Add(p.every)
	if p.sent < joinStatuses {
		st.report.at = now.Add(min(p.every, joinEvery<<p.sent))
	}
	switch {
	case unwanted: // said more than once: it has no answer
		st.report.farewells--
		st.report.at = now.Add(farewellEvery)
	case st.life.finished || st.report.leaving:
		st.report.at = Never
	}
	st.r.stats.Statuses++
	st.win.history.ask(st, now)
	return st.withChecksum(wire.AppendStatus(buf, h, &s, topics))
}
