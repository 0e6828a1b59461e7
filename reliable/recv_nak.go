package reliable

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// nakState decides when missing packets are requested. docs/protocol §6.
type nakState struct {
	wake     *wakeup
	missing  int     // missing packets
	at       Instant // the earliest due of all missing packets
	expireAt Instant // no missing packet is given up before
	rtt      rttEstimator
	// grace is how late reordered packets have been: for so long a gap may close by itself. Zero on a fabric that keeps
	// the order.
	grace     time.Duration
	backoff   time.Duration // advertised by the publisher
	path      time.Duration // round trip, as the publisher has measured it
	receivers uint32
	again     bool // the last NAK repeated a request
}

// addMissing adds missing packets: the first is to be requested at due, and given up at expire.
func (n *nakState) addMissing(packets int, due, expire Instant) {
	n.missing += packets
	n.expireAt = min(n.expireAt, expire)
	n.by(due)
}

// by makes a NAK due at that time at the latest.
func (n *nakState) by(due Instant) {
	n.at = min(n.at, due)
	n.wake.by(n.at)
}

// settled records that a missing packet has arrived or was given up.
func (n *nakState) settled() {
	if n.missing--; n.missing == 0 {
		n.at = Never
	}
}

// heard takes over the timers that the publisher states. docs/protocol §6.9.
func (n *nakState) heard(hb *wire.Heartbeat) {
	n.backoff, n.receivers, n.path = min(hb.Backoff, maxBackoffTime), hb.Receivers, hb.RTT
	switch {
	case !n.rtt.measured && hb.RTT > 0:
		n.rtt.smoothed, n.rtt.variance, n.rtt.measured = hb.RTT, hb.RTT/2, true
	case hb.RTT > 2*n.rtt.smoothed:
		n.rtt.sample(hb.RTT) // unlike samples here, it is measured even if every NAK is repeated
	}
}

// firstDelay is how long to wait before the first NAK for a packet: 0, unless reordering or shared losses were
// observed. The back-off is distributed as in RFC 5401 §3.2: few of many receivers draw a short one, and their NAK
// triggers the repair before the others ask. docs/protocol §6.3.
func (n *nakState) firstDelay(rng *rand.Rand) time.Duration {
	d := n.grace
	if n.backoff > 0 {
		lambda := math.Log(float64(max(2, n.receivers))) + 1
		x := math.Log1p(rng.Float64()*math.Expm1(lambda)) / lambda
		d += time.Duration(x * float64(n.backoff))
	}
	return d
}

// late adapts grace to a packet that was late by d, but not lost. docs/protocol §6.10.
func (n *nakState) late(d time.Duration) {
	d = min(d+d/4, 2*n.rtt.value())
	if d > n.grace {
		n.grace = d
	} else {
		n.grace -= (n.grace - d) / 16
	}
}

// repaired reduces grace slowly: true losses gain nothing from it. docs/protocol §6.10.
func (n *nakState) repaired() { n.grace -= n.grace / 32 }

// appendNAK appends one NAK for all packets that are due to buf, or returns nil. docs/protocol §6.2.
func (st *Stream) appendNAK(now Instant, buf []byte) []byte {
	n, judged := &st.nak, st.r.judged(now)
	if n.missing == 0 || judged < n.at || st.life.down {
		return nil
	}
	if !st.r.wanted {
		n.at = now.Add(maxRetry) // no subscription wants the stream
		return nil
	}
	if st.win.keeps && st.win.slots.Free() == 0 && st.latest(st.next) == nil {
		if st.reclaimSlots(); st.win.slots.Free() == 0 {
			n.at = now.Add(n.rtt.retry(n.path)) // slow readers leave no slot for a repair
			return nil
		}
	}
	if st.path.legs != nil {
		st.overdue(now)
	}
	var b wire.RangesBuilder
	begun, full := false, false
	n.again = false
	n.at = Never
	next := Never
	asked, lowest := uint64(0), uint64(0)
	for seq, left := st.next, n.missing; seq < st.tracked && left > 0; {
		e := st.win.entries.at(seq)
		if e.state != entryMissing {
			seq++
			continue
		}
		if e.due > judged || full {
			next = min(next, e.due)
			left--
			seq++
			continue
		}
		// A range extends as far as consecutive packets are due.
		first := seq
		for seq < st.tracked && left > 0 {
			e := st.win.entries.at(seq)
			if e.state != entryMissing || e.due > judged {
				break
			}
			left--
			seq++
		}
		if !begun {
			b.Begin(buf, st.header(), wire.TypeNAK, st.r.cfg.ID, first, wire.ReasonNone, 0, min(st.packetSize, maxNAK))
			begun, lowest = true, first
		}
		if !b.Add(first, seq-first) {
			full = true // the rest follows in the next NAK
			next = min(next, judged)
			continue
		}
		asked += seq - first
		next = min(next, st.asked(now, first, seq))
	}
	n.at = next
	if !begun {
		return nil
	}
	st.r.stats.NAKs++
	st.r.stats.NAKPackets += asked
	st.loss(LossNAK, lowest, asked, 0, 0)
	return st.withChecksum(b.Finish())
}

// maxNAK is the longest NAK, in bytes: about 600 isolated losses.
const maxNAK = 1200

// asked records that the packets from first up to end were requested, and returns when to repeat. docs/protocol §6.4.
func (st *Stream) asked(now Instant, first, end uint64) Instant {
	retry := st.nak.rtt.retry(st.nak.path)
	next := Never
	for seq := first; seq < end; seq++ {
		e := st.win.entries.at(seq)
		st.nak.again = st.nak.again || e.tries > 0
		if e.tries == 0 && !(st.win.history.open && seq < st.win.history.end) {
			st.loss(LossAsked, seq, 1, st.r.up(now).sub(e.since), 0)
		}
		e.asked = now
		e.due = now.Add(max(retry, min(retry<<min(e.tries/2, 8), maxRetry)))
		e.tries = min(e.tries+1, 200)
		next = min(next, e.due)
	}
	return next
}

// notice processes an NCF or a gone. docs/protocol §6.6, §9.1.
func (st *Stream) notice(now Instant, t wire.Type, n wire.Ranges) {
	changed := false
	for {
		first, count, ok := n.Next()
		if !ok {
			break
		}
		if t == wire.TypeNCF {
			st.r.stats.NCFs++
		}
		if t == wire.TypeGone && st.win.history.open {
			st.win.history.giveUp(st, now, first+count, events.CauseGone) // so is everything before them
			changed = true
		}
		for seq := max(first, st.next); seq < min(first+count, st.tracked); seq++ {
			e := st.win.entries.at(seq)
			if e.state != entryMissing {
				continue
			}
			if t == wire.TypeNCF {
				rtt := st.nak.rtt.value()
				until := min(now.Add(min(n.Wait, maxRetry)+rtt), max(st.r.when(e.since), e.asked).Add(maxDefer+rtt))
				e.due = max(e.due, until)
				continue
			}
			e.state, e.cause = entryGone, events.CauseGone
			st.nak.settled()
			changed = true
		}
	}
	if changed {
		st.advance(now)
	}
}

// header returns the header of the stream's control packets.
func (st *Stream) header() wire.Header {
	return wire.Header{GroupTag: st.path.tag, Publisher: st.Publisher, Epoch: st.Epoch}
}

// withChecksum adds a checksum if the publisher or this receiver needs one.
func (st *Stream) withChecksum(p []byte) []byte {
	if st.r.cfg.Checksum || st.path.checksum {
		wire.SetChecksum(p)
	}
	return p
}
