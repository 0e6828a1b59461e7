package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// How publishers wait: for room, for everything to be sent, for subscribers.

// makeRoom sends what can be sent. If that gives no room it waits until another attempt may succeed. mine: the caller
// is in the middle of a large message. Under mu, which it releases while it waits.
func (p *Publication) makeRoom(ctx context.Context, wait, mine bool) error {
	if p.life.closed != nil {
		return p.life.closed
	}
	if p.life.ending && !mine {
		return net.ErrClosed
	}
	if !p.open.large || mine {
		now := p.l.now()
		p.send(now, false)
		if !p.open.w.Packets.Full() {
			return nil
		}
	}
	if !wait {
		r := p.s.Blocked()
		if r == events.ReasonNone {
			r = events.ReasonOther
			if !p.open.large {
				r = events.ReasonMemory
			}
		}
		return p.backPressure(r)
	}
	return p.wait(ctx)
}

// wait releases mu until another attempt may succeed.
func (p *Publication) wait(ctx context.Context) error {
	if p.l.watchdog.within() {
		return p.heldError(ErrInHandler)
	}
	err := p.sleep(ctx)
	if p.life.closed != nil {
		return p.life.closed
	}
	return p.heldError(err)
}

// sleep releases mu until the waiters are woken or ctx ends. It always locks mu again: a context is user code, which
// may panic.
func (p *Publication) sleep(ctx context.Context) error {
	room := p.waiters.room
	p.waiters.n++
	due := p.deadline()
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.open.take() // another goroutine may have given it
		p.waiters.n--
	}()
	p.l.endRest()
	p.l.wakeBy(due) // the loop may have found mu locked
	if p.l.await(room, ctx.Done(), nil) == 0 {
		return nil
	}
	return contextError(ctx)
}

// waiters are goroutines that wait until another attempt may succeed. Under the publication's lock.
type waiters struct {
	n        int
	answers  int           // goroutines that wait for statuses of subscribers, whether asleep or not
	room     chan struct{} // closed and replaced when they are woken
	progress uint64        // of the sender, at the last wake-up
}

func newWaiters() waiters { return waiters{room: make(chan struct{})} }

// signal wakes all waiters.
func (w *waiters) signal() {
	if w.n > 0 {
		close(w.room)
		w.room = make(chan struct{})
	}
}

// follow wakes them if the sender has made progress. It reports whether it has woken any.
func (w *waiters) follow(progress uint64) (woken bool) {
	if progress == w.progress {
		return false
	}
	w.progress = progress
	w.signal()
	return w.n > 0
}

// Flush sends everything published so far, and waits for room until ctx ends. It does not wait for what is published
// meanwhile.
func (p *Publication) Flush(ctx context.Context) error {
	w := p.open.w
	marked, assigned, begun, lead := false, false, uint64(0), uint64(0)
	return p.until(ctx, func() bool {
		if !marked {
			p.open.take()
			marked, begun = true, w.Begun()
		}
		if !assigned {
			if w.Packets.Assigned() < begun {
				return false
			}
			assigned, lead = true, p.s.Lead()
		}
		return p.s.Transmitted() >= lead
	})
}

// Drain flushes and waits until all present subscribers have everything.
func (p *Publication) Drain(ctx context.Context) error {
	anew := true
	err := p.untilAnswered(ctx, func() bool {
		if !p.open.allAssigned() {
			return false
		}
		now := p.l.now()
		p.s.Hurry(now, anew)
		anew = false
		p.transmit(now, false) // cheaper than having the loop do it
		if due := p.deadline(); due != reliable.Never {
			p.l.wakeBy(due)
		}
		return p.s.Drained()
	})
	return p.behind(ctx, err)
}

// until sends, and waits until ok returns true.
func (p *Publication) until(ctx context.Context, ok func() bool) error {
	if ctx == nil {
		return ErrNilContext
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if p.life.closed != nil {
			return p.life.closed
		}
		p.sendAll(p.l.now())
		if ok() {
			return nil
		}
		if err := p.wait(ctx); err != nil {
			return err
		}
	}
}

// untilAnswered is until for a condition that depends on statuses of subscribers.
func (p *Publication) untilAnswered(ctx context.Context, ok func() bool) error {
	p.mu.Lock()
	p.waiters.answers++
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.waiters.answers--
	}()
	return p.until(ctx, ok)
}

// Delivered returns how many messages of t have arrived at all present subscribers that were not released, or at as
// many as flow control needs.
func (p *Publication) Delivered(t *topics.Topic) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.m.DeliveredOn(t)
}

// Receivers returns how many subscribers of topic are known to be present: processes, not subscriptions. Topic zero
// counts all of the group. Receivers that may be subscribers are asked.
func (p *Publication) Receivers(topic uint64) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, open := p.m.Ask(p.l.now(), topic); open {
		p.l.wakeBy(p.deadline())
	}
	return p.m.Receivers(topic)
}

// WaitReceivers waits until n subscribers of topic are present. It returns a *events.ConfigMismatchError if none is,
// and a bus that may subscribe to the topic reports meanwhile that it cannot receive this one (docs/protocol §14.6).
func (p *Publication) WaitReceivers(ctx context.Context, topic uint64, n int) error {
	h := p.l.hellos
	defer h.await()()
	defer p.await(topic, n)()
	before := h.unreachableSoFar()
	var unreachable *events.ConfigMismatchError
	err := p.untilAnswered(ctx, func() bool {
		there, _ := p.m.Ask(p.l.now(), topic)
		if unreachable = nil; there == 0 && n > 0 {
			unreachable = h.unreachableSince(before, topic)
		}
		return there >= n || unreachable != nil
	})
	if err == nil && unreachable != nil {
		return unreachable
	}
	return err
}

// end ends the stream and waits until subscribers have everything.
func (p *Publication) end(ctx context.Context) error {
	// Nothing is accepted from here on: subscribers that have reached the announced end would drop later messages.
	p.mu.Lock()
	p.life.end()
	p.interrupt()
	p.mu.Unlock()
	// A message that was begun is completed.
	if err := p.until(ctx, func() bool { return !p.open.large }); err != nil {
		return err
	}
	if err := p.until(ctx, p.closesIndex); err != nil {
		return err
	}
	if err := p.Flush(ctx); err != nil {
		return err
	}
	p.mu.Lock()
	p.s.End(p.l.now())
	p.mu.Unlock()
	p.l.wakeBy(0)
	return p.Drain(ctx)
}

// kill closes the publication for all its users.
func (p *Publication) kill(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.life.close(err)
	p.interrupt()
}

// interrupt makes publishers and waiters check life. Under mu.
func (p *Publication) interrupt() {
	p.open.take()
	p.waiters.signal()
	p.m.Wake()
}

// sendAll sends what is open. Under mu.
func (p *Publication) sendAll(now reliable.Instant) {
	p.open.take()
	p.send(now, !p.open.large)
}

// free frees the packet memory. The transport, which reads it, and all publications have ended.
func (p *Publication) free() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.memory.free(p.l.t)
}

// linger ends all publications, and waits for their subscribers until ctx ends.
func (l *Loop) linger(ctx context.Context, pubs []*Publication) error {
	errs, ended := make([]error, len(pubs)), make(chan struct{}, len(pubs))
	for i, p := range pubs {
		l.spawn(func() {
			errs[i] = p.end(ctx)
			ended <- struct{}{}
		})
	}
	var first error
	missing := false
	for range pubs {
		l.await(ended, nil, nil)
	}
	for _, err := range errs {
		first = cmp.Or(first, err)
	}
	var unsent uint64
	for _, p := range pubs {
		missing = missing || p.missed()
		p.kill(net.ErrClosed)
		if err := p.states.making.Wait(ctx); first == nil {
			first = err
		}
		unsent += p.unsent()
		p.out.tx.Close()
	}
	switch {
	case unsent > 0:
		return &events.UnsentError{Messages: unsent, Err: first}
	case first != nil && !missing && !errors.Is(first, net.ErrClosed):
		return fmt.Errorf("closed before every subscriber had confirmed the end; all have everything: %w", first)
	case first != nil && !errors.Is(first, net.ErrClosed):
		return fmt.Errorf("closed before every subscriber had everything: %w", first)
	}
	return nil
}
