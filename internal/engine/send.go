package engine

import (
	"bytes"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// When a packet leaves, and which goroutine sends it: a publisher's own, or the loop.

// look decides whether the appended messages leave at once (departure), or wait in an open train.
//
// In a tight loop even reading the clock is expensive. So look is called only for the first, fourth, sixteenth …
// message of a train, and about when the train is due (open.pace, open.give). Under mu.
func (p *Publication) look() {
	now, d := p.l.now(), p.l.departure
	d.came(now)
	first := !p.open.seen
	p.open.seen = true
	switch {
	case p.open.w.Packets.Full():
		p.send(now, false)
	case first && !p.out.busy && d.atOnce(now):
		p.send(now, true)
	case !first && !p.held() && p.late(now):
		p.sendLate(now)
	case p.open.opened == 0:
		p.opens(now)
	}
	if p.open.opened != 0 {
		p.open.pace(now, d.linger())
	}
}

// opens records that the first message of a train waits for others. Under mu.
func (p *Publication) opens(now reliable.Instant) {
	p.open.opened = now
	p.l.departure.opened(1)
	p.l.wakeBy(p.l.departure.loopDue(now))
}

// closes records that all open packets have their sequence. Under mu.
func (p *Publication) closes() {
	if p.open.opened != 0 {
		p.l.departure.opened(-1)
	}
	p.open.opened, p.open.count, p.open.seen = 0, 0, false
}

// held reports whether the stream is blocked. Under mu.
func (p *Publication) held() bool { return p.s.Blocked() != events.ReasonNone }

// late reports whether the open train has waited for linger at now. Under mu.
func (p *Publication) late(now reliable.Instant) bool {
	return p.open.opened != 0 && now.Sub(p.open.opened) >= p.l.departure.linger()
}

// sendLate sends a train that has waited for linger. Under mu, with the open packets taken.
func (p *Publication) sendLate(now reliable.Instant) {
	p.l.departure.overdue(p.open.count)
	p.send(now, !p.open.large)
	if p.open.w.Packets.Rest() < p.memory.block/p.s.PacketSize()/2 && p.l.departure.several() {
		// Otherwise the next train would end with the block.
		p.m.NextBlock(p.open.w)
		p.grant(p.open.w)
	}
}

// send assigns sequences to open packets as far as flow control allows, with all also to the incomplete one, and
// transmits. Under mu.
func (p *Publication) send(now reliable.Instant, all bool) {
	if p.life.closed != nil {
		return
	}
	if p.held() {
		p.readReplies(now)
	}
	lead := p.s.Lead()
	p.m.Assign(now, p.open.w, all)
	if p.states.s != nil {
		p.tendState(now) // here, because the loop may find mu locked
	}
	p.tendIndex(now)
	if !all && p.s.Lead() != lead {
		p.l.departure.full()
	}
	p.transmit(now, false)
	if p.readReplies(now) {
		p.transmit(now, true) // repairs
	}
	p.grant(p.open.w)
	p.shrink()
	p.open.count, p.open.seen = 0, false
	switch {
	case !p.open.w.Pending():
		p.closes()
	case p.open.opened == 0:
		p.opens(now)
	}
	p.expect()
	if due := p.deadline(); due != reliable.Never {
		p.l.wakeBy(due)
	}
	p.l.departure.did(p.l.now())
}

// readReplies reads NAKs and statuses on the publisher's goroutine, which runs while the loop may have to wait for a
// processor. It reports whether there were any. Under mu.
func (p *Publication) readReplies(now reliable.Instant) (any bool) {
	if p.out.replies == nil || now.Sub(reliable.Instant(p.l.repliesAt.Load())) < repliesEvery && !p.held() {
		return false
	}
	p.l.repliesAt.Store(int64(now)) // the replies of all publications come to one address
	before := p.s.Progress()
	p.out.replies.ReadReplies(p.out.onReply)
	if p.s.Progress() == before {
		return false
	}
	p.waiters.signal()
	return true
}

// repliesEvery is how often a publisher reads replies: reading costs a system call.
const repliesEvery = 20 * time.Microsecond

// reply handles a reply. One for another publication goes to the loop if that publication is locked. Under mu.
func (p *Publication) reply(b []byte) {
	if p.l.hellos.keep(b, p.out.replies) {
		return
	}
	if h, err := wire.ParseHeader(b); err == nil && h.Publisher == p.l.cfg.Publisher && h.GroupTag != p.tag {
		for _, other := range p.l.publications() {
			if other.tag == h.GroupTag && other.mu.TryLock() {
				other.answer(p.l.now(), b, p.out.address)
				return
			}
		}
		b, from := bytes.Clone(b), p.out.address()
		p.l.post(func() { p.l.reply(p.l.now(), b, func() string { return from }) })
		return
	}
	p.s.Handle(p.l.now(), b, p.out.address)
}

// answer handles a reply that a publisher of another publication has read. Under mu, which it unlocks.
func (p *Publication) answer(now reliable.Instant, b []byte, address func() string) {
	defer p.mu.Unlock()
	before := p.s.Progress()
	p.s.Handle(now, b, address)
	if p.s.Progress() == before {
		return
	}
	p.transmit(now, false) // repairs, and data for which there is room now
	p.waiters.signal()
	if due := p.deadline(); due != reliable.Never {
		p.l.wakeBy(due)
	}
}

// transmit sends everything that is ready. stale: others may have sent since now, so a send begins later. Under mu.
func (p *Publication) transmit(now reliable.Instant, stale bool) {
	if p.life.closed != nil {
		return // its memory may have been freed
	}
	p.s.Completed(p.out.tx.Completed())
	p.out.busy = false
	for p.s.Next(now, &p.out.train) {
		begin, before := now, p.s.Transmitted()
		if stale {
			begin, stale = p.l.now(), false
		}
		n, end, err := p.sendTrain()
		fresh := p.s.Transmitted() > before
		if fresh {
			p.sent = end
		}
		if n > 0 && p.out.stuck.since != 0 && p.out.stuck.shows(p.out.train.Lens[:n]) {
			p.out.stuck.took(p.s.Ran(end))
		}
		if n == p.out.train.Count {
			p.l.departure.took(begin, end, fresh)
			now = end
			continue
		}
		if n == 0 {
			p.out.stuck.refused(p.s.Ran(end), err, p.out.train.Lens[0])
		}
		p.out.refused(now, err)
		return
	}
}

// deadline returns when the loop must check the publication again. Under mu.
func (p *Publication) deadline() reliable.Instant {
	if p.out.busy {
		return p.out.deadline() // nothing can be sent before
	}
	d := p.s.Deadline()
	if parked, saturated := p.l.departure.parked(); saturated && p.steers() {
		d = max(d, parked)
	}
	if !p.held() && p.open.opened != 0 {
		d = min(d, p.l.departure.loopDue(p.open.opened))
	}
	if !p.life.shut() { // tendState does nothing any more
		d = min(d, p.states.due())
	}
	return min(d, p.indexDue())
}

// steers reports whether publishers can do what is due themselves. They cannot while a goroutine waits for statuses or
// replies of subscribers: it may publish nothing until then. Under mu.
func (p *Publication) steers() bool {
	return !p.held() && !p.out.busy && p.waiters.answers == 0 && p.m.Waiting() == 0
}

// handle handles a NAK or status. Loop only.
func (p *Publication) handle(now reliable.Instant, b []byte, address func() string) {
	p.mu.Lock()
	p.s.Handle(now, b, address)
	p.l.readied = p.l.readied || p.m.Waiting() > 0
	p.mu.Unlock()
}

// tick does what is due and what replies need, and returns when to call it again. Loop only.
func (p *Publication) tick(now reliable.Instant) (due reliable.Instant) {
	// A publisher that holds mu is sending, and does most of what is due here. If the loop waited for mu, each train
	// would make the publisher wake it.
	if !p.mu.TryLock() {
		if p.passed++; p.passed < maxPassed {
			return now.Add(loopPark)
		}
		p.mu.Lock()
	}
	p.passed = 0
	defer p.mu.Unlock()
	if p.life.closed != nil {
		return reliable.Never
	}
	p.s.RepliesRead(p.l.inbox.read)
	if n := p.l.inbox.repliesLost; n != p.repliesLost {
		p.repliesLost = n
		p.s.RepliesLost()
	}
	p.s.Runs(now)
	defer func() { p.s.Rests(min(due, now.Add(time.Second))) }() // no heartbeat is further off
	due = p.indexDue()
	if late := p.open.opened != 0 && (p.held() || now >= p.l.departure.loopDue(p.open.opened)); late || now >= due {
		p.open.take()
		defer p.giveOpen()
		if late {
			p.assignDue(now)
		}
		p.tendIndex(now)
	}
	if p.states.s != nil {
		p.tendState(now)
	}
	p.expect()
	p.transmit(now, true)
	p.grant(p.open.w)
	p.shrink()
	released := p.waiters.follow(p.s.Progress())
	p.l.readied = p.l.readied || released
	p.watchMembers(now)
	parked, saturated := p.l.departure.parked()
	goesOn := now < parked
	p.selfDriven = p.out.replies != nil && p.steers() && saturated && (goesOn || released)
	switch {
	case !p.selfDriven:
		return p.deadline()
	case goesOn:
		return max(p.deadline(), parked) // not later, because the last send may have been the final one
	}
	return max(p.deadline(), now.Add(loopPark))
}

// indexDue is when tendIndex has something to do. Under mu.
func (p *Publication) indexDue() reliable.Instant {
	if p.life.shut() || p.open.large || p.held() && p.open.opened != 0 {
		return reliable.Never
	}
	return p.m.IndexDue()
}

// tendIndex continues an index round, or begins one that is due. Under mu, with the open packets taken.
func (p *Publication) tendIndex(now reliable.Instant) {
	if now < p.indexDue() {
		return
	}
	w := p.open.w
	for now >= p.indexDue() {
		p.m.WriteIndex(now, w)
		p.m.Assign(now, w, true)
		p.grant(w)
	}
	switch {
	case !w.Pending():
		p.closes()
	case p.open.opened == 0:
		p.opens(now)
	}
}

// closesIndex writes the last index round of the stream. It returns false while it waits for room. Under mu.
func (p *Publication) closesIndex() bool {
	p.open.take()
	for !p.m.CloseIndex(p.open.w) {
		lead := p.s.Lead()
		if p.sendAll(p.l.now()); p.s.Lead() == lead {
			return false
		}
	}
	return true
}

// maxPassed is how often the loop finds a publication locked before it waits for the lock. A publisher of 1 KiB
// messages holds the lock half of the time; its rate falls to 0.89 if the loop waits the second time.
const maxPassed = 10

// assignDue assigns sequences to open packets that have waited long enough for others, or for room. Under mu.
func (p *Publication) assignDue(now reliable.Instant) {
	late := now >= p.l.departure.loopDue(p.open.opened)
	if !p.open.w.Pending() {
		p.closes()
		return
	}
	if !late && !p.held() && !p.open.w.Packets.Full() {
		return
	}
	if late {
		p.l.departure.overdue(p.open.count)
	}
	p.m.Assign(now, p.open.w, !p.open.large)
	p.grant(p.open.w)
	if !p.open.w.Pending() {
		p.closes()
	}
}
