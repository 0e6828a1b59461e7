package driver

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// When a packet leaves, and by whose hand: a publisher's own goroutine, or the
// loop.

// look decides when what was appended leaves: at once when messages come half a
// send's cost apart or more, otherwise with its train, which goes when it is
// full, on Flush, or FlushAfter after its first message.
//
// A publisher that is not busy thus sends each message from its own goroutine. One
// that was idle half of the time goes on with it for a few messages that come
// closer, since it may only have been held up for a moment: to have the loop woken
// for what waits costs more. One in a tight loop fills trains; for it even reading
// the clock is dear, so that is done at the first, fourth, sixteenth … message of a
// train only. Under mu.
func (p *Publication) look(o *open) {
	now := p.l.now()
	cost := p.cost()
	leave := o.w.Full()
	switch apart := now.Sub(p.lastSend) / time.Duration(max(1, o.count)); {
	case leave || p.busy:
	case apart > cost/2:
		leave = true
		o.close = 0
	case o.count == 1 && o.close < mostClose && p.pace > 2*cost:
		leave = true
		o.close++
	}
	if leave {
		p.send(now, o, !o.w.Full())
		return
	}
	if o.opened == 0 {
		p.open(o, now)
	}
}

// mostClose is how many messages in a row may come close and leave at once.
const mostClose = 4

// open notes that the first message waits for company, and for how long it may.
func (p *Publication) open(o *open, now reliable.Instant) {
	o.opened = now
	p.l.wakeBy(now.Add(p.patience(o)))
}

// leastSendCost keeps messages together where sending costs next to nothing: to
// look whether to send costs something, too.
const leastSendCost = time.Microsecond

// cost is what a send takes.
func (p *Publication) cost() time.Duration { return max(p.sendCost, leastSendCost) }

// paced notes a send: of all that is open, or of full packets, for which the
// publisher was busy all along. Under mu.
func (p *Publication) paced(now reliable.Instant, all bool) {
	apart := min(now.Sub(p.lookedAt), 4*p.cost())
	if !all {
		apart = 0
	}
	p.pace += (apart - p.pace) / 8
	p.lookedAt = now
}

// send seals what it may of o, with all the open packet too, and transmits.
// Under mu.
func (p *Publication) send(now reliable.Instant, o *open, all bool) {
	if p.closed != nil {
		return
	}
	held := p.s.Blocked() != reliable.ReasonNone
	if held {
		p.readReplies(now)
	}
	lead, pending := p.s.Lead(), o.w.Pending()
	p.s.Seal(now, o.w, all)
	p.sending(now, all, held)
	if pending {
		p.paced(now, all)
	}
	switch {
	case all:
		o.fulls = max(0, o.fulls-pausePrice)
	case p.s.Lead() != lead:
		o.fulls = min(o.fulls+1, 2*flightSends)
	}
	p.transmit(now)
	if p.readReplies(now) {
		p.transmit(now) // repairs
	}
	p.s.Grant(o.w)
	o.count = 0
	switch {
	case !o.w.Pending():
		o.opened = 0
	case o.opened == 0:
		o.opened = now
	}
	if due := p.deadline(); due != reliable.Never {
		p.l.wakeBy(due)
	}
}

// readReplies takes in NAKs and statuses by the publisher's own goroutine, which
// runs while the loop may have to wait for a processor. It reports whether there
// were any. Under mu.
func (p *Publication) readReplies(now reliable.Instant) (any bool) {
	if p.replies == nil || now.Sub(p.repliesAt) < repliesEvery && p.s.Blocked() == reliable.ReasonNone {
		return false
	}
	p.repliesAt = now
	before := p.s.Progress()
	p.replies.ReadReplies(p.onReply)
	if p.s.Progress() == before {
		return false
	}
	p.signal()
	return true
}

// repliesEvery is how often a publisher looks: a look costs a system call.
const repliesEvery = 20 * time.Microsecond

// reply handles one, or leaves it to the loop if it is for another publication
// of the bus. Under mu.
func (p *Publication) reply(b []byte) {
	if h, err := wire.ParseHeader(b); err == nil && h.Publisher == p.l.cfg.Publisher && h.GroupTag != p.tag {
		for _, other := range p.l.publications() {
			if other.tag == h.GroupTag && other.mu.TryLock() {
				other.s.Handle(p.l.now(), b)
				other.mu.Unlock()
				p.l.wakeBy(0)
				return
			}
		}
		b = bytes.Clone(b)
		p.l.post(func() { p.l.reply(p.l.now(), b) })
		return
	}
	p.s.Handle(p.l.now(), b)
}

// transmit hands everything that is ready to the transport. Under mu.
func (p *Publication) transmit(now reliable.Instant) {
	if p.closed != nil {
		return // its memory may be gone
	}
	p.s.Completed(p.tx.Completed())
	p.busy = false
	for p.s.Next(now, &p.train) {
		p.out = transport.Outbound{Data: p.train.Data, Stride: p.train.Stride, Count: p.train.Count, Lens: p.train.Lens}
		n, err := p.tx.Send(&p.out)
		p.s.Sent(now, n, p.tx.Completed())
		if n == p.out.Count {
			end := p.l.now()
			// Being preempted in between is no cost of sending.
			p.sendCost += (min(end.Sub(now), 2*p.sendCost) - p.sendCost) / 8
			p.lastSend, now = end, end
			continue
		}
		p.busy, p.retryAt = true, now.Add(busyRetry)
		if errors.Is(err, transport.ErrNotReady) {
			p.retryAt = now.Add(readyRetry)
		}
		if !errors.Is(err, transport.ErrBusy) && !errors.Is(err, transport.ErrNotReady) {
			p.sendErrs++
			if p.sendErrs&(p.sendErrs-1) == 0 { // the 1st, 2nd, 4th, 8th …
				p.l.log.Error("sending failed", "group", p.l.t.GroupAddress(p.group), "err", err, "times", p.sendErrs)
			}
		}
		return
	}
}

// busyRetry is how soon the loop tries again when the transport was busy.
const busyRetry = 50 * time.Microsecond

// readyRetry is the same for a group that is not joined: the event that it is
// makes the loop try anyway.
const readyRetry = 10 * time.Millisecond

// deadline is when the loop must look at the publication again. Under mu.
func (p *Publication) deadline() reliable.Instant {
	d := p.s.Deadline()
	if p.inFlight() {
		d = max(d, p.lastSend.Add(flightPatience))
	}
	if p.s.Blocked() == reliable.ReasonNone {
		if p.shared.opened != 0 {
			d = min(d, p.shared.opened.Add(p.patience(&p.shared)))
		}
		for _, x := range p.owned {
			if x.opened != 0 && p.seizeAt == 0 {
				d = min(d, x.opened.Add(p.patience(&x.open)))
			}
		}
	}
	if p.seizeAt != 0 {
		d = min(d, p.seizeAt)
	}
	if p.busy {
		d = min(d, p.retryAt)
	}
	return d
}

// handle takes in a NAK or status. Loop only.
func (p *Publication) handle(now reliable.Instant, b []byte) {
	p.mu.Lock()
	p.s.Handle(now, b)
	p.mu.Unlock()
}

// tick does what time and replies ask for, and returns when it wants to be
// called again. Loop only.
func (p *Publication) tick(now reliable.Instant) reliable.Instant {
	// A publisher that holds mu is sending, and does most of what is due here on
	// the way. To wait for it would make it wake us, each train anew.
	if !p.mu.TryLock() {
		if p.passed++; p.passed < mostPassed {
			if p.flies {
				return now.Add(flightPatience)
			}
			return now.Add(passedAgain)
		}
		p.mu.Lock()
	}
	p.passed = 0
	defer p.mu.Unlock()
	if p.closed != nil {
		return reliable.Never
	}
	p.paused = now.Sub(p.lastSend) >= flightPatience && p.s.Blocked() == reliable.ReasonNone
	again := p.seizeAt != 0 && p.seizeAt <= now
	if again {
		p.seizeAt = 0
	}
	if p.shared.due(now, p) {
		p.takeShared()
		p.sealDue(now, &p.shared)
		defer p.giveShared()
	}
	for _, x := range p.owned {
		if x.open.due(now, p) && p.seize(x) {
			p.sealDue(now, &x.open)
		}
	}
	p.transmit(now)
	p.s.Grant(p.shared.w)
	released := false
	if n := p.s.Progress(); n != p.progress || again {
		p.progress = n
		released = p.waiting > 0
		p.signal()
	}
	for _, id := range p.s.TakeReleased() {
		p.l.log.Warn("a subscriber fell silent and is not waited for any more", "receiver", fmt.Sprintf("%016x", id), "group", p.l.t.GroupAddress(p.group))
		p.l.event(Event{Kind: SubscriberSilent, Group: p.l.t.GroupAddress(p.group), Receiver: id})
	}
	p.flies = p.replies != nil && (p.inFlight() || released && p.steadily())
	if p.flies {
		return max(p.deadline(), now.Add(flightPatience))
	}
	return p.deadline()
}

// passedAgain is how soon the loop comes back to a publication that was locked,
// and mostPassed how often, before it waits for the lock.
const (
	passedAgain = 100 * time.Microsecond
	mostPassed  = 10
)

// sealDue seals what has waited for company long enough, or for room. Under mu.
func (p *Publication) sealDue(now reliable.Instant, o *open) {
	late := o.opened != 0 && now.Sub(o.opened) >= p.patience(o)
	if !o.w.Pending() {
		o.opened, o.count = 0, 0
		return
	}
	if !late && p.s.Blocked() == reliable.ReasonNone && !o.w.Full() {
		return
	}
	if late {
		o.overdue(p.block / p.s.PacketSize())
	}
	p.s.Seal(now, o.w, !o.large)
	p.s.Grant(o.w)
	if !o.w.Pending() {
		o.opened, o.count = 0, 0
	}
}
