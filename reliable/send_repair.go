package reliable

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// repairs is the sender's side of loss recovery: the packets requested, how many may be repaired now, and over how long
// receivers spread their NAKs.
//
// A repair is multicast: a packet lost on a shared link is missing at many receivers, and one repair serves all of them
// and makes their own NAKs unnecessary.
//
// Repairs have their own budget, a share of the recent data rate, and a packet is not repaired again before the last
// repair can have arrived. So a storm of NAKs costs at most that budget. docs/protocol §6.6.
type repairs struct {
	count  int // packets queued
	queues [repairQueues]repairQueue
	active uint32 // queues with packets, as bits
	turn   uint   // queue that was served last
	budget repairAccount
	// strangers bounds the repairs for non-members.
	strangers tokenBucket
	peak      peakRate
	starved   bool // queued repairs wait for the budget

	// Input of the back-off's closed loop, since countAt: packets queued by a request, and requests for packets that were
	// queued already or repaired less than a round trip ago.
	fresh, duplicate int
	countAt          Instant
	backoff          time.Duration
	backoffChanged   bool // since the last heartbeat

	gone      ranges // requested packets that left the window
	goneAt    Instant
	queuedAt  Instant // time of the last NCF
	noticeRTT time.Duration
}

// ranges is a small set of sequences for a notice.
type ranges struct {
	first, end [32]uint64
	n          int
}

// add merges [first, end) into a range that touches it, or appends it. It drops it if there is no room: the receiver
// will ask again.
func (r *ranges) add(first, end uint64) {
	for i := range r.n {
		if first <= r.end[i] && end >= r.first[i] {
			r.first[i], r.end[i] = min(first, r.first[i]), max(end, r.end[i])
			return
		}
	}
	if r.n < len(r.first) {
		r.first[r.n], r.end[r.n] = first, end
		r.n++
	}
}

// sort orders the ranges and merges adjacent ones.
func (r *ranges) sort() {
	for i := 1; i < r.n; i++ {
		for j := i; j > 0 && r.first[j] < r.first[j-1]; j-- {
			r.first[j], r.first[j-1] = r.first[j-1], r.first[j]
			r.end[j], r.end[j-1] = r.end[j-1], r.end[j]
		}
	}
	k := 0
	for i := 1; i < r.n; i++ {
		if r.first[i] <= r.end[k] {
			r.end[k] = max(r.end[k], r.end[i])
			continue
		}
		k++
		r.first[k], r.end[k] = r.first[i], r.end[i]
	}
	r.n = min(r.n, k+1)
}

func (r *repairs) init(cfg *SenderConfig, now Instant) {
	r.peak = peakRate{rate: float64(cfg.Rate), at: now}
	r.budget.init(cfg.Repairs, cfg.RepairShare, cfg.PacketSize, now)
	r.strangers.init(strangersRate, max(strangersRate, float64(cfg.PacketSize)), now)
}

// handleNAK queues the requested packets. docs/protocol §6.6, §6.7.
func (s *Sender) handleNAK(now Instant, n wire.Ranges) {
	s.stats.NAKs++
	m, queue, hold := s.asker(now, n.Receiver)
	seen := min(n.End, s.win.sent) // the receiver knows of all packets before it
	if m != nil {
		seen = max(seen, m.path.end)
		m.path.end = seen
	}
	joining := queue == 1<<joinersQueue
	fetched := uint64(noSeq) // a joiner requests the newest packets first: from here on it repeats requests
	if joining && m.path.fetched != 0 {
		fetched = m.path.fetched - 1
	}
	limited := queue == 1<<strangersQueue && !s.members.full()
	r := &s.repairs
	rtt := s.rtt.value()
	r.accrue(now, 0)
	r.budget.add(now, s.blocked == events.ReasonFlow)
	r.adapt(s, now, min(rtt, maxRetry))
	for {
		first, count, ok := n.Next()
		if !ok {
			break
		}
		end := min(first+count, s.win.sent) // a packet that was never sent cannot be missing
		if joining && (m.path.fetched == 0 || first < m.path.fetched-1) {
			m.path.fetched = first + 1
		}
		if first < s.win.trail {
			g := min(end, s.win.trail)
			if g > first {
				r.gone.add(first, g)
				r.noticeRTT = min(rtt, maxRetry)
				s.stats.NAKGone += g - first
				s.explainGone(now, n.Receiver)
			}
			first = g
		}
		for seq := first; seq < end; seq++ {
			e := s.win.at(seq)
			queued, repaired := e.queues != 0, e.repairedAt != 0
			tooSoon := !queued && repaired && now.Sub(e.repairedAt) < hold && seen < e.lead+overtakes
			if limited && !tooSoon && e.queues&queue == 0 && !r.strangers.take(now, int(e.size)) {
				s.stats.NAKPackets += end - seq
				s.stats.NAKRefused += end - seq
				return // nothing waits for these: a subscriber asks again as a member
			}
			s.stats.NAKPackets++
			if m != nil && !tooSoon && !joining { // history is requested at once, however fast the member is
				m.path.asked++
			}
			if queued || tooSoon {
				if queued && e.queues&queue == 0 {
					r.queue(e, seq, queue)
				}
				s.stats.NAKDuplicate++
				if !joining && (queued || now.Sub(e.repairedAt) < rtt) {
					r.duplicate++
				}
				continue
			}
			switch {
			case !repaired || queue == 1<<strangersQueue:
			case !joining:
				r.budget.again++
			case seq >= fetched:
				r.budget.again++
				e.again = true
			}
			queues := queue
			if !repaired && !joining {
				queues |= 1 << firstsQueue
			}
			r.queue(e, seq, queues)
			if !joining { // joiners do not share a loss: a back-off would not help
				r.fresh++
			}
		}
	}
}

// asker returns the member that sent a NAK, which is a sign of life, or nil; the queue for its packets, as a bit; and
// for how long a repair may be in transit to it.
func (s *Sender) asker(now Instant, receiver uint64) (m *Member, queue uint32, hold time.Duration) {
	m = s.members.asks(s.up(now), receiver)
	rtt := &s.rtt
	if m != nil && m.path.rtt.measured {
		rtt = &m.path.rtt // members are at different distances
	}
	hold = rtt.hold()
	s.repairs.budget.asked(rtt.recent())
	switch {
	case m == nil || s.up(now).sub(m.lastAt) >= repeatedLife:
		return m, 1 << strangersQueue, hold
	case m.fetches:
		return m, 1 << joinersQueue, hold
	default:
		return m, 1 << m.queue, hold
	}
}

// adapt widens the back-off window while several receivers request the same packets, and narrows it otherwise: a loss
// that all share should cause about two NAKs. Uncorrelated loss needs no back-off.
//
// It evaluates the requests over the time in which all receivers can have asked, and once per advertised value, because
// receivers react only to that. docs/protocol §6.8.
func (r *repairs) adapt(s *Sender, now Instant, rtt time.Duration) {
	if r.fresh+r.duplicate == 0 || r.backoffChanged {
		r.fresh, r.duplicate, r.countAt = 0, 0, max(r.countAt, now)
		return
	}
	if now.Sub(r.countAt) < 4*rtt+r.backoff {
		return
	}
	old := r.backoff
	switch {
	case r.duplicate > r.fresh:
		r.backoff = min(max(2*r.backoff, rtt), maxBackoff*rtt, maxBackoffTime)
	case 4*r.duplicate < r.fresh:
		if r.backoff /= 2; r.backoff < rtt/4 {
			r.backoff = 0
		}
	}
	r.fresh, r.duplicate, r.countAt = 0, 0, now
	if r.backoff != old {
		r.backoffChanged = true
		r.countAt = now.Add(rtt + old) // until then receivers use the old back-off
		s.heartbeat.by(now)
	}
}

// advertised records that a heartbeat has stated the back-off.
func (r *repairs) advertised() { r.backoffChanged = false }

// take unqueues the next repair, if the budget allows it.
func (r *repairs) take(s *Sender, now Instant) (seq uint64, ok bool) {
	i, ok := r.turnOf()
	if !ok {
		return 0, false
	}
	q := &r.queues[i]
	if seq, ok = q.find(&s.win, 1<<i); !ok {
		return 0, false
	}
	e := s.win.at(seq)
	held := s.blocked == events.ReasonFlow
	if !r.budget.takes(now, e, held, i == joinersQueue, max(joinersBurst, int(e.size))) {
		r.starved = true
		s.members.trailing.short = s.members.trailing.short || i != joinersQueue
		return 0, false
	}
	r.unqueue(e)
	r.turn, q.at, q.begun = uint(i), seq+1, true
	r.starved = false
	return seq, true
}

// again queues a repair that the transport did not take.
func (r *repairs) again(w *sendWindow, seq uint64) {
	if seq < w.trail {
		return
	}
	if e := w.at(seq); e.queues == 0 {
		r.queue(e, seq, 1<<firstsQueue)
		q := &r.queues[firstsQueue]
		q.at = min(q.at, seq) // the queue may have passed it
	}
}

// accrue accounts for bytes of data sent, of which the budget is a share.
func (r *repairs) accrue(now Instant, bytes int) {
	r.budget.data += bytes
	if !r.peak.sent(now, bytes) {
		return
	}
	r.budget.add(now, false)
	r.strangers.rate = max(strangersRate, r.peak.rate/strangersPart) // docs/protocol §6.14
	r.strangers.burst = max(strangersRate, float64(r.budget.bus.packet), r.strangers.rate/100)
	r.strangers.refill(now) // at the present rate: tokens saved at a higher one are cut
}

// due is when the budget allows the next repair.
func (r *repairs) due(packet int) Instant {
	return r.budget.due(packet, r.active == 1<<joinersQueue, max(joinersBurst, packet))
}

// deadline is when the next repair, of packet bytes, or the next notice can be sent.
func (r *repairs) deadline(packet int) Instant {
	d := Never
	if r.count > 0 && r.starved {
		d = r.due(packet)
	}
	if r.gone.n > 0 {
		d = min(d, r.goneAt.Add(r.noticeRTT/2))
	}
	return d
}

// notice reports whether a gone or an NCF is due.
func (r *repairs) notice(now Instant) bool {
	return r.gone.n > 0 && now.Sub(r.goneAt) >= r.noticeRTT/2 ||
		r.count > 0 && r.starved && now.Sub(r.queuedAt) >= max(startRTT, r.noticeRTT)
}

// appendNotices adds a gone for packets that left the window, and an NCF for packets that wait for the budget longer
// than a round trip. So receivers neither wait in vain nor repeat requests. docs/protocol §6.6, §6.7.
func (r *repairs) appendNotices(s *Sender, now Instant, c *control) {
	rtt := s.rtt.value()
	var b wire.RangesBuilder
	if r.gone.n > 0 && now.Sub(r.goneAt) >= r.noticeRTT/2 && !c.full() {
		r.gone.sort()
		b.Begin(c.begin(), s.header, wire.TypeGone, 0, r.gone.first[0], wire.ReasonOverwritten, 0, s.cfg.PacketSize)
		for i := range r.gone.n {
			if !b.Add(r.gone.first[i], r.gone.end[i]-r.gone.first[i]) {
				break
			}
		}
		c.end(b.Finish())
		s.stats.GoneSent++
		r.gone.n, r.goneAt = 0, now
	}
	if r.count > 0 && r.starved && now.Sub(r.queuedAt) >= max(startRTT, rtt) && !c.full() {
		r.noticeRTT = rtt
		size := s.cfg.PacketSize
		wait := r.due(size).Sub(now) + time.Duration(float64(r.count*size)/r.budget.speed()*float64(time.Second))
		if wait > rtt {
			r.appendNCF(s, c, wait)
		}
		r.queuedAt = now
	}
}

func (r *repairs) appendNCF(s *Sender, c *control, wait time.Duration) {
	var b wire.RangesBuilder
	low := r.lowest(&s.win)
	b.Begin(c.begin(), s.header, wire.TypeNCF, 0, low, wire.ReasonQueued, wait, s.cfg.PacketSize)
	for seq := low; seq < s.win.sent; {
		if s.win.at(seq).queues == 0 {
			seq++
			continue
		}
		first := seq
		for seq < s.win.sent && s.win.at(seq).queues != 0 {
			seq++
		}
		if !b.Add(first, seq-first) {
			break
		}
	}
	if b.Count() > 0 {
		c.end(b.Finish())
		s.stats.NCFSent++
	}
}
