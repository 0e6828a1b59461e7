package engine

import (
	"bytes"
	"time"

	"github.com/fanfaremq/fanfare/internal/logline"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// When a packet leaves, and by whose hand: a publisher's own goroutine, or the
// loop.

// look decides whether what was appended, last so many messages in one go of size bytes together,
// leaves at once (batcher), or waits in an open train.
//
// In a tight loop even reading the clock is dear, so it is done at the first, fourth,
// sixteenth … message of a train only, at fewer where trains are full, and about when the train is due (open.pace, open.give).
// It returns the time that it has read. Under mu.
func (p *Publication) look(messages uint64, size int) reliable.Instant {
	now, b := p.l.now(), p.l.batcher
	n, first := p.open.came(messages)
	if size > p.size {
		size = 0 // most of it has left while it was written
	}
	switch {
	case p.open.w.Full():
		b.sending(now, false, p.held())
		p.send(now, false)
	case !p.out.busy && b.leaves(now, p, n, size, first, p.othersPassed):
		b.sending(now, true, p.held())
		p.send(now, true)
	case p.open.opened == 0:
		p.opens(now)
	}
	if p.open.opened != 0 {
		p.open.pace(now, b.linger())
	}
	return now
}

// othersPassed reports whether the publications of open, but for p, have let so many messages
// pass since they looked last. One that somebody is at work in has. Under mu.
func (p *Publication) othersPassed(open []waiting, many uint64) bool {
	for i := range open {
		other := open[i].p
		if other == p {
			continue
		}
		if i == mostAsked || !other.mu.TryLock() {
			return true
		}
		n := other.open.passed()
		other.mu.Unlock()
		if n >= many {
			return true
		}
		many -= n
	}
	return false
}

// mostAsked is how many publications are asked what they have let pass: with so many
// open trains a bus is busy.
const mostAsked = 64

// opens notes that the first message waits for others. Under mu.
func (p *Publication) opens(now reliable.Instant) {
	p.open.opened = now
	p.l.batcher.opened(p, now)
	p.l.wakeBy(now.Add(p.l.batcher.linger()))
}

// held reports whether something holds the publisher up. Under mu.
func (p *Publication) held() bool { return p.s.Blocked() != events.ReasonNone }

// sendOverdue sends the trains, of any publication, that have waited long enough at
// now: a publisher does it on its way. It holds no lock of a publication.
func (l *Loop) sendOverdue(now reliable.Instant) {
	for p := l.batcher.next(now); p != nil; p = l.batcher.next(now) {
		if !p.mu.TryLock() {
			l.batcher.opened(p, now) // somebody is at work in it: later
			continue
		}
		p.sendOverdue(now)
	}
}

// sendOverdue is for one publication. Under mu, which it gives back.
func (p *Publication) sendOverdue(now reliable.Instant) {
	defer p.mu.Unlock()
	if p.life.closed != nil || p.held() {
		return // the loop does it when there is room
	}
	linger := p.l.batcher.linger() // once: others change it
	p.open.take()
	defer p.giveOpen()
	if oldest := p.sendIfOverdue(now, linger); oldest != reliable.Never {
		p.l.batcher.opened(p, oldest)
	}
}

// sendIfOverdue sends what is open if it has waited for linger, and returns since when it
// waits if not. Under mu, with what is open taken.
func (p *Publication) sendIfOverdue(now reliable.Instant, linger time.Duration) reliable.Instant {
	if p.open.opened == 0 {
		return reliable.Never
	}
	if now.Sub(p.open.opened) < linger {
		return p.open.opened
	}
	p.overdue()
	now = p.l.now() // others may have sent meanwhile
	p.l.batcher.sending(now, false, false)
	p.send(now, !p.open.large)
	if p.open.w.Rest() < p.memory.block/p.s.PacketSize()/2 && p.l.batcher.fillsSeveral() {
		// Else the next train would end where the block does.
		p.s.NextBlock(p.open.w)
		p.grant(p.open.w)
	}
	if p.open.opened == 0 {
		return reliable.Never
	}
	return p.open.opened
}

// overdue tells the batcher what has waited for linger. Under mu, with what is open taken.
func (p *Publication) overdue() {
	p.l.batcher.overdue(int(p.open.w.Begun()-p.open.w.Assigned()), p.memory.block/p.s.PacketSize())
}

// send gives what it may of what is open its sequences, with all the open packet too, and transmits.
// Under mu.
func (p *Publication) send(now reliable.Instant, all bool) {
	if p.life.closed != nil {
		return
	}
	if p.held() {
		p.readReplies(now)
	}
	lead := p.s.Lead()
	p.s.Assign(now, p.open.w, all)
	if p.states.s != nil {
		p.tendState(now) // the loop may find mu locked
	}
	if all || p.s.Lead() != lead {
		p.l.batcher.left(!all)
	}
	p.transmit(now, false)
	if p.readReplies(now) {
		p.transmit(now, true) // repairs
	}
	p.grant(p.open.w)
	p.shrink()
	p.open.sent(p.l.now())
	p.open.count, p.open.looked = 0, 0
	switch {
	case !p.open.w.Pending():
		p.open.opened = 0
	case p.open.opened == 0:
		p.opens(now)
	}
	p.expect()
	if due := p.deadline(); due != reliable.Never {
		p.l.wakeBy(due)
	}
}

// readReplies takes in NAKs and statuses by the publisher's own goroutine, which
// runs while the loop may have to wait for a processor. It reports whether there
// were any. Under mu.
func (p *Publication) readReplies(now reliable.Instant) (any bool) {
	if p.out.replies == nil || now.Sub(reliable.Instant(p.l.repliesAt.Load())) < repliesEvery && !p.held() {
		return false
	}
	p.l.repliesAt.Store(int64(now)) // all publications' replies come to one address
	before := p.s.Progress()
	p.out.replies.ReadReplies(p.out.onReply)
	if p.s.Progress() == before {
		return false
	}
	p.waiters.signal()
	return true
}

// repliesEvery is how often a publisher looks: a look costs a system call.
const repliesEvery = 20 * time.Microsecond

// reply handles one, or leaves it to the loop if it is for another publication
// of the bus. Under mu.
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
	p.s.HandleFrom(p.l.now(), b, p.out.address)
}

// answer handles a reply that another publication's publisher has read. Under mu, which it gives back.
func (p *Publication) answer(now reliable.Instant, b []byte, address func() string) {
	defer p.mu.Unlock()
	before := p.s.Progress()
	p.s.HandleFrom(now, b, address)
	if p.s.Progress() == before {
		return
	}
	p.transmit(now, false) // repairs, and what there is room for
	p.waiters.signal()
	if due := p.deadline(); due != reliable.Never {
		p.l.wakeBy(due)
	}
}

// transmit hands everything that is ready to the transport. stale says that others may have sent since now, so that a
// send does not begin then. Under mu.
func (p *Publication) transmit(now reliable.Instant, stale bool) {
	if p.life.closed != nil {
		return // its memory may be gone
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
			p.rhythm.sent(end)
		}
		if n > 0 && p.out.stuck.since != 0 && p.out.stuck.shows(p.out.train.Lens[:n]) {
			p.out.stuck.took(p.s.Ran(end))
		}
		if n == p.out.train.Count {
			p.l.batcher.took(begin, end, fresh)
			now = end
			continue
		}
		if n == 0 {
			p.out.stuck.refused(p.s.Ran(end), err, p.out.train.Lens[0])
		}
		if p.out.refused(now, err) {
			logline.SendFailed.Log(p.l.log, "group", p.l.t.GroupAddress(p.group), "err", err, "times", p.out.errors)
		}
		return
	}
}

// deadline is when the loop must look at the publication again. Under mu.
func (p *Publication) deadline() reliable.Instant {
	d := p.s.Deadline()
	if row := p.l.batcher.sends(); row.saturated() && p.steers() {
		d = max(d, row.parked())
	}
	if !p.held() && p.open.opened != 0 {
		d = min(d, p.open.opened.Add(p.l.batcher.linger()))
	}
	return min(d, p.out.deadline(), p.states.due())
}

// steers reports whether its publishers can do what is due by themselves. They cannot while somebody waits for what
// subscribers say: he may publish nothing until then. Under mu.
func (p *Publication) steers() bool {
	return !p.held() && !p.out.busy && p.waiters.answers == 0 && len(p.inquiries) == 0
}

// handle takes in a NAK or status. Loop only.
func (p *Publication) handle(now reliable.Instant, b []byte, address func() string) {
	p.mu.Lock()
	p.s.HandleFrom(now, b, address)
	p.l.readied = p.l.readied || len(p.inquiries) > 0
	p.mu.Unlock()
}

// tick does what time and replies ask for, and returns when it wants to be
// called again. Loop only.
func (p *Publication) tick(now reliable.Instant) (due reliable.Instant) {
	// A publisher that holds mu is sending, and does most of what is due here on
	// the way. To wait for it would make it wake us, each train anew.
	if !p.mu.TryLock() {
		if p.passed++; p.passed < mostPassed {
			if p.selfDriven {
				return now.Add(loopPark)
			}
			return now.Add(passedAgain)
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
	if p.open.due(now, p) {
		p.open.take()
		p.assignDue(now)
		defer p.giveOpen()
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
	row := p.l.batcher.sends()
	goesOn := now < row.parked()
	p.selfDriven = p.out.replies != nil && p.steers() && row.saturated() && (goesOn || released)
	switch {
	case !p.selfDriven:
		return p.deadline()
	case goesOn:
		return max(p.deadline(), row.parked()) // and no later, where that was the last one
	}
	return max(p.deadline(), now.Add(loopPark))
}

// passedAgain is how soon the loop comes back to a publication that was locked,
// and mostPassed how often, before it waits for the lock.
const (
	passedAgain = 100 * time.Microsecond
	mostPassed  = 10
)

// assignDue gives a sequence to what has waited for others long enough, or for room. Under mu.
func (p *Publication) assignDue(now reliable.Instant) {
	late := p.open.opened != 0 && now.Sub(p.open.opened) >= p.l.batcher.linger()
	if !p.open.w.Pending() {
		p.open.empty()
		return
	}
	if !late && p.s.Blocked() == events.ReasonNone && !p.open.w.Full() {
		return
	}
	if late {
		p.overdue()
	}
	p.s.Assign(now, p.open.w, !p.open.large)
	p.grant(p.open.w)
	if !p.open.w.Pending() {
		p.open.empty()
	}
}
