package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/internal/bias"
	"github.com/fanfaremq/fanfare/reliable"
)

// Exclusive is one goroutine's own way into a publication: packets of its own,
// which it fills without a lock or an atomic instruction. Only what happens once
// in a while goes by the publication's lock: its sending, and its looking at the
// clock, at some messages of a train (open.give).
//
// Others, who flush or end the publication, or send what waits too long, take
// the packets away with the biased lock.
type Exclusive struct {
	p    *Publication
	t    *reliable.Topic
	lock bias.Lock         // guards open.w, with p.mu: who is not the owner seizes it
	tail *reliable.Tail    // of open.w
	wrap func(error) error // makes errors of Publish the user's
	// around is called with each message and what publishes it; nil: nothing is. The owner's.
	around func(msg []byte, publish func() error) error

	open          // w under lock, or p.mu when it is seized; left and granted the owner's; the others under p.mu
	parked   bool // under p.mu: the owner is in a call that gives p.mu up
	released bool // under p.mu
}

// Exclusive returns a way into the publication for one goroutine, on topic t.
// Publish passes its errors through wrap.
func (p *Publication) Exclusive(t *reliable.Topic, wrap func(error) error) (*Exclusive, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.takeWriter(); err != nil {
		return nil, err
	}
	x := &Exclusive{p: p, t: t, wrap: wrap, open: open{w: p.s.NewWriter()}}
	x.tail = &x.w.Tail
	p.owned = append(p.owned, x)
	return x, nil
}

// blocksAWriter is what a further writer takes of packet memory
// (reliable.SenderConfig.Blocks).
const blocksAWriter = 2

// takeWriter takes packet memory for a further writer. Under mu, which it may give up for a
// while.
func (p *Publication) takeWriter() error {
	for p.life.closed == nil && p.memory.spare < blocksAWriter {
		// Others publish while the memory is made, and registered.
		p.mu.Unlock()
		mem, err := p.l.windows.alloc(blocksAWriter, p.memory.block)
		p.mu.Lock()
		if err != nil {
			return fmt.Errorf("packet memory for a further publisher: %w", err)
		}
		if p.life.closed != nil {
			p.l.t.Free(mem)
			break
		}
		p.memory.own = append(p.memory.own, mem)
		p.s.AddMemory(mem)
		p.memory.spare += blocksAWriter
	}
	if p.life.closed != nil {
		return p.life.closed
	}
	p.memory.spare -= blocksAWriter
	return nil
}

// Publish sends msg. It copies msg. With wait it waits for room as long as ctx
// allows; without, it returns a *BackPressureError.
//
// Nearly all messages go on with the run. Nothing but x is needed behind the copy,
// so the compiler has nothing to save across it.
func (x *Exclusive) Publish(ctx context.Context, msg []byte, wait bool) error {
	if left := x.left.Get(); left > 0 && x.lock.Enter() {
		if x.tail.Append(msg) {
			x.left.Set(left - 1)
			x.lock.Exit()
			return nil
		}
		x.lock.Exit()
	}
	return x.further(ctx, msg, wait)
}

// PublishBatch sends msgs in order, and waits for room as Publish does. It returns how many it took; fewer
// than all come with an error.
func (x *Exclusive) PublishBatch(ctx context.Context, msgs [][]byte) (int, error) {
	for done := 0; ; {
		if done += x.appendAll(msgs[done:]); done == len(msgs) {
			return done, nil
		}
		n, err := x.publishSome(ctx, msgs[done:])
		if err != nil {
			return done, err
		}
		done += n
	}
}

// appendAll writes as many of msgs as there is room for before somebody must look at the clock. It
// returns how many. Who wants the lock waits for one block at most.
func (x *Exclusive) appendAll(msgs [][]byte) (n int) {
	if left := x.left.Get(); left > 0 && x.lock.Enter() {
		n = x.w.AppendAll(x.t, msgs[:min(uint64(len(msgs)), left)])
		x.left.Set(left - uint64(n))
		x.lock.Exit()
	}
	return n
}

// further is Publish where the open packet has no room, or somebody must look at
// the clock.
func (x *Exclusive) further(ctx context.Context, msg []byte, wait bool) error {
	if left := x.left.Get(); left > 0 && x.lock.Enter() {
		ok := x.w.Append(x.t, msg) // in the block's next packets, if there are any
		x.lock.Exit()
		if ok {
			x.left.Set(left - 1)
			return nil
		}
	}
	if x.around != nil {
		return x.around(msg, func() error { return x.publish(ctx, msg, wait) })
	}
	return x.publish(ctx, msg, wait)
}

// Around has f called with each message from now on, and with what publishes it. Nothing
// goes by the owner's short way then.
func (x *Exclusive) Around(f func(msg []byte, publish func() error) error) {
	x.p.mu.Lock()
	defer x.p.mu.Unlock()
	x.enter()
	x.around = f
	x.leave()
}

// publish is Publish by the publication's lock.
func (x *Exclusive) publish(ctx context.Context, msg []byte, wait bool) error {
	if err := x.p.live(ctx); err != nil {
		return x.wrap(err)
	}
	return x.locked(func() (reliable.Instant, error) { return x.p.publish(ctx, &x.open, x.t, msg, wait) })
}

// publishSome publishes the first of msgs by the publication's lock, and those behind it that the block has room
// for. It returns how many that were.
func (x *Exclusive) publishSome(ctx context.Context, msgs [][]byte) (n int, err error) {
	if x.around != nil {
		return 1, x.around(msgs[0], func() error { return x.publish(ctx, msgs[0], true) })
	}
	if err = x.p.live(ctx); err != nil {
		return 0, x.wrap(err)
	}
	err = x.locked(func() (now reliable.Instant, err error) {
		n, now, err = x.p.publishSome(ctx, &x.open, x.t, msgs)
		return now, err
	})
	return n, err
}

// locked has f publish by the publication's lock. f returns the time, if it has looked.
func (x *Exclusive) locked(f func() (reliable.Instant, error)) error {
	now, err := x.entered(f)
	x.p.l.sendOverdue(now)
	if err != nil {
		return x.wrap(err)
	}
	return nil
}

func (x *Exclusive) entered(f func() (reliable.Instant, error)) (reliable.Instant, error) {
	x.p.mu.Lock()
	defer x.p.mu.Unlock()
	if x.released {
		return 0, ErrReleased
	}
	x.enter()
	defer x.leave()
	return f()
}

// enter begins a call of the owner's under p.mu: the lock is its again, and
// p.mu guards the packets for now.
func (x *Exclusive) enter() {
	x.lock.Restore()
	x.parked = true
	x.take()
}

// leave ends such a call.
func (x *Exclusive) leave() {
	x.parked = false
	x.give(x.p.life.shut() || x.around != nil, x.p.l.batcher.trains())
}

// Flush is Publication.Flush.
func (x *Exclusive) Flush(ctx context.Context) error { return x.call(ctx, x.p.Flush) }

// Drain is Publication.Drain.
func (x *Exclusive) Drain(ctx context.Context) error { return x.call(ctx, x.p.Drain) }

// call makes a call of the owner's that flushes: nobody has to seize what the
// owner does not use meanwhile.
func (x *Exclusive) call(ctx context.Context, f func(context.Context) error) error {
	x.p.mu.Lock()
	if x.released {
		x.p.mu.Unlock()
		return ErrReleased
	}
	x.enter()
	x.p.mu.Unlock()
	defer func() {
		x.p.mu.Lock()
		x.leave()
		x.p.mu.Unlock()
	}()
	return f(ctx)
}

// Close flushes and gives the packets back. Later calls return an error.
func (x *Exclusive) Close(ctx context.Context) error {
	err := x.Flush(ctx)
	if errors.Is(err, ErrReleased) {
		return nil
	}
	p := x.p
	if err != nil {
		return p.unlessSent(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if x.released {
		return nil
	}
	x.enter()
	x.released = true
	if i := slices.Index(p.owned, x); i >= 0 {
		p.owned = slices.Delete(p.owned, i, i+1)
	}
	p.s.Release(x.w)
	p.memory.spare += blocksAWriter
	return nil
}

// ErrReleased says that a publisher was closed. It matches net.ErrClosed.
var ErrReleased = fmt.Errorf("publisher is closed: %w", net.ErrClosed)

// seize takes the packets of an exclusive publisher. If its owner is just
// writing, that fails, and the loop looks again soon. Under mu.
func (p *Publication) seize(x *Exclusive) bool {
	if x.parked || x.lock.Revoke() {
		return true
	}
	if p.seizeAt == 0 {
		p.seizeAt = p.l.now().Add(seizeAgain)
		p.l.wakeBy(p.seizeAt)
	}
	return false
}

// seizeAgain is how soon to look again for an owner to have left: writing takes
// nanoseconds, unless it was preempted.
const seizeAgain = 20 * time.Microsecond

// allAssigned reports whether nothing is open any more. Under mu.
func (p *Publication) allAssigned() bool {
	if p.takeShared(); p.shared.w.Pending() || p.shared.large {
		return false
	}
	for _, x := range p.owned {
		if x.large || !p.seize(x) || x.w.Pending() {
			return false
		}
	}
	return true
}

// sendAll sends what is open, of any publisher. Under mu.
func (p *Publication) sendAll(now reliable.Instant) {
	p.takeShared()
	p.l.batcher.sending(now, true, p.held())
	p.send(now, &p.shared, !p.shared.large)
	for _, x := range p.owned {
		if p.seize(x) && x.w.Pending() {
			p.send(now, &x.open, !x.large)
		}
	}
}
