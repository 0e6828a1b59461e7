package driver

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

// How the loop sleeps, as waitPolicy decides, and how others make it run.

// spin polls until something comes, or there is another reason to go on: then it
// reports true, and what has come is in the batch. It reports false when it is
// time to park.
func (l *Loop) spin(deadline reliable.Instant) (polled bool, err error) {
	until, ok := l.waits.spinUntil(l.now())
	if !ok {
		return false, nil
	}
	for {
		if err := l.poll(); err != nil {
			return false, err
		}
		now := l.now()
		if len(l.batch.Trains) > 0 || len(l.batch.Events) > 0 || now >= deadline || l.kick.Load() && l.kick.Swap(false) {
			return true, nil
		}
		if now >= until {
			return !l.waits.parks(), nil
		}
		if l.waits.yields() {
			runtime.Gosched()
		}
	}
}

// sleep waits for packets, a command or the deadline.
func (l *Loop) sleep(deadline reliable.Instant) {
	rest := l.waits.rests(l.now(), deadline, l.unneeded)
	l.resting.Store(rest)
	l.armed.Store(int64(deadline))
	if l.kick.Swap(false) {
		return
	}
	wait := time.Duration(-1)
	if deadline != reliable.Never {
		if wait = deadline.Sub(l.now()); wait <= 0 {
			runtime.Gosched() // whoever it waits for may need the processor
			return
		}
	}
	if rest {
		l.rest(wait)
		return
	}
	if err := l.t.Wait(wait); err != nil && !errors.Is(err, net.ErrClosed) {
		l.log.Warn("waiting for packets failed", "err", err)
	}
}

// wakeBy makes sure that the loop looks at the world at due or before. The
// loop announces how long it will sleep (armed) before it looks at kick for
// the last time, so either it sees the kick or we see that it sleeps too long.
func (l *Loop) wakeBy(due reliable.Instant) {
	armed := l.armed.Load()
	if armed != 0 && armed <= int64(due) {
		return // it sleeps, and not too long
	}
	l.kick.Store(true)
	if armed := l.armed.Load(); armed > int64(due) {
		l.wake()
	}
}

// do runs f on the loop and waits for it. It returns net.ErrClosed when the
// loop has ended, and ErrInHandler where it would wait for its caller.
func (l *Loop) do(f func()) error {
	if l.inHandler() {
		return ErrInHandler
	}
	finished := make(chan struct{})
	if err := l.post(func() { f(); close(finished) }); err != nil {
		return err
	}
	select {
	case <-finished:
		return nil
	case <-l.done:
		select {
		case <-finished:
			return nil
		default:
			return l.closedError()
		}
	}
}

// post runs f on the loop, some time soon.
func (l *Loop) post(f func()) error {
	l.mu.Lock()
	select {
	case <-l.done:
		l.mu.Unlock()
		return l.closedError()
	default:
	}
	l.commands = append(l.commands, f)
	l.mu.Unlock()
	l.wakeBy(0)
	return nil
}

func (l *Loop) closedError() error {
	if l.err != nil && !errors.Is(l.err, net.ErrClosed) {
		return fmt.Errorf("transport failed: %w", l.err)
	}
	return net.ErrClosed
}

func (l *Loop) runCommands() bool {
	l.mu.Lock()
	run := l.commands
	l.commands = nil
	l.mu.Unlock()
	for _, f := range run {
		f()
	}
	if l.resume.Swap(false) {
		now := l.now()
		for _, g := range l.groups {
			if g != nil {
				g.tendLogs(now)
				g.r.Resume(now)
			}
		}
		return true
	}
	return len(run) > 0
}

// unneeded reports whether nothing can come that would have to be seen at once:
// nothing is subscribed to, and the bus is saturated.
func (l *Loop) unneeded() bool {
	for _, g := range l.groups {
		if g != nil {
			return false
		}
	}
	for _, p := range l.publications() {
		if !p.selfDriven {
			return false
		}
	}
	return true
}

// attend ends the loop's rest, for one who waits for what it will read.
func (l *Loop) attend() {
	if l.resting.Load() {
		l.wakeBy(0)
	}
}

// rest waits for wake, outside of the transport.
func (l *Loop) rest(wait time.Duration) {
	l.restTimer.Reset(wait)
	select {
	case <-l.restTimer.C:
	case <-l.restEnd:
	}
}

// wake ends the loop's sleep, wherever it sleeps.
func (l *Loop) wake() {
	if !l.resting.Load() {
		l.t.Wake()
		return
	}
	select {
	case l.restEnd <- struct{}{}:
	default:
	}
}
