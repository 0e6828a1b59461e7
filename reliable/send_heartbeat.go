package reliable

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// heartbeat is the ladder of heartbeats, which reveals losses at the end of a burst. The first heartbeat follows the
// last packet after tailDelay, each next one after twice the interval, up to slowHeartbeat, or quietHeartbeat when all
// members have everything. The timer is armed once and compared when it expires, not armed again by every packet.
// docs/protocol §5.1, §5.8.
type heartbeat struct {
	due      Instant
	last     Instant       // last heartbeat
	lastData Instant       // last new packet
	expected Instant       // when the owner expects more data
	interval time.Duration // the ladder's next step
	rate     packetRate

	sinceRestart int  // heartbeats since restart
	asks         bool // a member has not answered the message layer, as of the last heartbeat
}

func (h *heartbeat) start(now Instant) { h.due, h.interval, h.last = now, tailDelay, now }

// by makes a heartbeat due at that time at the latest.
func (h *heartbeat) by(at Instant) { h.due = min(h.due, at) }

// data records that new packets were sent.
func (h *heartbeat) data(now Instant) {
	h.lastData = now
	h.interval = tailDelay
	h.by(now.Add(tailDelay))
}

// Expect announces that more data follows at t or earlier, so that no heartbeat is needed until then. Zero: none is
// expected. docs/protocol §5.2.
func (s *Sender) Expect(t Instant) { s.heartbeat.expected = t }

// probe starts heartbeats that ask members for the room that the publisher waits for.
func (h *heartbeat) probe(now Instant, rtt time.Duration) {
	h.interval = min(max(tailDelay, 2*rtt), slowHeartbeat)
	h.by(now.Add(h.interval))
}

// hasten makes the next heartbeat due after d at the latest.
func (h *heartbeat) hasten(now Instant, d time.Duration) {
	h.interval = min(h.interval, d)
	h.by(now.Add(d))
}

// HeartbeatAfter makes the next heartbeat due d after the last one at the latest.
func (s *Sender) HeartbeatAfter(now Instant, d time.Duration) {
	s.heartbeat.by(max(now, s.heartbeat.last.Add(d)))
}

// restart restarts the ladder, for the end of the stream.
func (h *heartbeat) restart(now Instant) { h.due, h.interval, h.sinceRestart = now, tailDelay, 0 }

// appendHeartbeat adds a heartbeat to the control train if one is due. docs/protocol §5.2, §5.8.
func (s *Sender) appendHeartbeat(now Instant, c *control) {
	h := &s.heartbeat
	if now < h.due || c.full() {
		return
	}
	// The first heartbeat precedes the first data, so that receivers already present know where the stream begins. A later
	// one is delayed if data is about to be sent, unless a caller waits for subscribers (§5.7), or for members to have
	// everything.
	ready := s.ready() || now < h.expected && s.end.hurry == unhurried && !s.end.begun && s.await.waiters == 0
	if h.lastData != 0 && (ready || now.Sub(h.lastData) < tailDelay && s.end.hurry != toBeAsked) &&
		s.blocked != events.ReasonFlow && !s.flow.held {
		// The data states the lead as well: check again when it may have stopped.
		if now.Sub(h.last) < activeHeartbeat && !s.repairs.backoffChanged && s.stall.next == nil {
			h.due = h.last.Add(activeHeartbeat)
			if !s.ready() { // otherwise sending the data makes a heartbeat due earlier
				h.due = min(h.due, max(h.lastData.Add(tailDelay), h.expected))
			}
			return
		}
		h.due = now.Add(tailDelay)
	} else {
		h.due = now.Add(s.await.step(now, h.interval))
		h.interval = min(2*h.interval, s.slowest())
	}
	s.sendHeartbeat(now, c)
}

// slowest is the present top of the ladder. docs/protocol §5.8.
func (s *Sender) slowest() time.Duration {
	if s.blocked != events.ReasonFlow && !s.flow.held && !s.end.begun && len(s.members.list) > 0 &&
		s.win.sent == s.win.next &&
		s.members.complete(s.win.next) && !s.heartbeat.asks &&
		!s.members.silent(s.up(s.heartbeat.last), s.statusEvery()) {
		return quietHeartbeat
	}
	return slowHeartbeat
}

func (s *Sender) sendHeartbeat(now Instant, c *control) {
	h := &s.heartbeat
	if s.isUp(now) { // otherwise statuses are unread
		s.members.giveUp(s, now)
		s.releaseHolders(now)
	}
	h.rate.update(now, s.stats.PacketsSent)
	every := s.statusEvery()
	hd := s.header
	if s.end.begun {
		hd.Flags |= wire.FlagEnd
	}
	if s.flow.free {
		hd.Flags |= wire.FlagFree
	}
	switch {
	case s.end.hurry != unhurried && s.settled():
		s.end.hurry = unhurried
	case s.end.hurry == toBeAsked:
		s.end.hurry = hurried
	}
	asks := s.control.Heartbeat(now)
	hd.Flags |= asks.Flags
	if h.asks = asks.Open; asks.Within > 0 {
		h.hasten(now, asks.Within)
	}
	if asks.Flags&wire.FlagSolicit != 0 || s.blocked == events.ReasonFlow || s.flow.held || s.end.begun ||
		s.end.hurry != unhurried || s.members.silent(s.up(now), every) {
		hd.Flags |= wire.FlagSolicit
		s.members.solicited(s.up(now))
	}
	hb := wire.Heartbeat{
		Lead: s.win.sent, Trail: min(s.win.trail, s.win.sent), SentAt: uint64(now),
		Backoff: s.repairs.backoff, Receivers: uint32(len(s.members.list)),
		StatusInterval: every, Interval: max(slowHeartbeat, h.interval),
		PacketSize: s.cfg.PacketSize, RTT: s.rtt.known(), Name: s.cfg.Name,
		Settings: s.cfg.settings(), Legs: wire.LegsOf(s.cfg.LegTags),
		Timing: s.timer.timing(now, s.win.sent, h.rate.value), Asked: asks.Topic,
	}
	if m := s.stall.toName(s.members.toBeNamed()); m != nil {
		m.namedAt = now
		hb.Holder, hb.Held, hb.Released = m.ID, m.heldFor(s.up(now)), m.away()
	}
	c.end(wire.AppendHeartbeat(c.begin(), hd, &hb))
	s.repairs.advertised()
	s.stats.HeartbeatsSent++
	h.last = now
	h.sinceRestart++
}

// statusEvery is the cadence of statuses: those of all members together take statusShare of the packet rate.
// docs/protocol §7.2.
func (s *Sender) statusEvery() time.Duration {
	n := time.Duration(max(1, len(s.members.list)))
	rate := s.heartbeat.rate.value
	slowest := max(maxStatusEvery, n*2*time.Millisecond)
	if rate <= 0 {
		return slowest
	}
	return min(slowest, max(minStatusEvery, time.Duration(float64(n)*float64(time.Second)/(statusShare*rate))))
}

// packetRate is the smoothed rate of new packets per second.
type packetRate struct {
	value float64
	at    Instant
	count uint64
}

func (r *packetRate) update(now Instant, count uint64) {
	d := now.Sub(r.at)
	if d < activeHeartbeat/2 {
		return
	}
	rate := float64(count-r.count) / d.Seconds()
	r.value += (rate - r.value) / 4
	r.at, r.count = now, count
}

// awaiting shortens the interval of heartbeats while callers wait for subscribers: a joining receiver learns of the
// publisher by the next heartbeat. docs/protocol §5.7.
type awaiting struct {
	waiters int
	since   Instant       // when the first of them began
	least   time.Duration // minimum interval of heartbeats
}

const (
	// awaitHeartbeat is the shortest interval of heartbeats while a caller waits.
	awaitHeartbeat = 2 * time.Millisecond
	// awaitShare is the part of the time waited so far that the next interval lasts, so that the load of a long wait
	// decreases.
	awaitShare = 16
)

// step is the time from now to the next heartbeat; ladder is that of the ladder.
func (a *awaiting) step(now Instant, ladder time.Duration) time.Duration {
	if a.waiters == 0 {
		return ladder
	}
	return min(ladder, max(awaitHeartbeat, a.least, now.Sub(a.since)/awaitShare))
}

// Await begins a wait for subscribers, until Awaited. A heartbeat is sent at once, and later ones at shorter intervals.
// least is the minimum interval, for a publisher that waits in many groups.
func (s *Sender) Await(now Instant, least time.Duration) {
	a := &s.await
	if a.waiters++; a.waiters == 1 {
		a.since, a.least = now, least
	}
	s.heartbeat.by(now)
}

// Awaited ends a wait begun by Await.
func (s *Sender) Awaited() { s.await.waiters-- }
