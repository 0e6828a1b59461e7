package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// shutdown is how far the end of a loop has come.
type shutdown struct {
	begun bool          // under Loop.mu: nothing new is accepted
	dead  bool          // under Loop.mu: the loop has stopped
	done  chan struct{} // closed when everything has ended
	err   error         // why; valid after done
}

// refuses reports whether the caller runs in a handler of the bus, and so cannot wait for the bus.
func (l *Loop) refuses() bool { return l.watchdog.within() || l.workers.within() }

// Close ends publications and subscriptions and stops the loop. Until ctx ends, publications linger until their
// subscribers have everything, and replies until no requester asks for them. Close returns why the end was not orderly,
// and ErrStuck if a handler does not return within lastWait after ctx has ended. Then the loop ends when the handler
// returns.
func (l *Loop) Close(ctx context.Context) error {
	if l.refuses() {
		return ErrInHandler
	}
	l.mu.Lock()
	again := l.shutdown.begun
	l.shutdown.begun = true
	pubs := l.publications()
	l.mu.Unlock()
	if again {
		if l.Ended() {
			return nil
		}
		if l.await(l.shutdown.done, ctx.Done(), nil) == 0 {
			return nil
		}
		return contextError(ctx)
	}
	l.post(func() { l.hellos.ends(l.now()) }) // fails only if the loop has ended
	err := l.linger(ctx, pubs)
	l.post(l.suppress) // otherwise later requests would have to be waited for, too
	l.lingerReplies(ctx, func(uint64) bool { return true })
	l.spawn(l.end)
	if l.endsBy(ctx, l.shutdown.done) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrStuck, contextError(ctx))
}

// endsBy reports whether done is closed before ctx ends, or within lastWait after that.
func (c *clock) endsBy(ctx context.Context, done <-chan struct{}) bool {
	if c.await(done, ctx.Done(), nil) == 0 {
		return true
	}
	last, cancel := c.timeout(context.Background(), lastWait)
	defer cancel()
	return c.await(done, last.Done(), nil) == 0
}

// ErrStuck says that the loop has not ended.
var ErrStuck = errors.New("a handler does not return, and the bus ends when it does")

// lastWait is how long Close waits for a loop that has nothing left to wait for: long for a busy host, short for the
// caller.
const lastWait = time.Second

// Ended reports whether the loop has ended.
func (l *Loop) Ended() bool {
	select {
	case <-l.shutdown.done:
		return true
	default:
		return false
	}
}

func (l *Loop) isClosing() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shutdown.begun
}

// end sends farewells and stops the loop, after the handler that runs.
func (l *Loop) end() {
	l.do(l.suppress)
	for range farewells {
		var any bool
		if l.do(func() { any = l.farewell() }) != nil || !any {
			break
		}
		l.pause(context.Background(), time.Millisecond)
	}
	l.t.Close()
	l.wakeBy(0)
}

// suppress ends all delivery. Publishers continue without this bus, so their later messages are no gap.
func (l *Loop) suppress() {
	l.hellos.close()
	l.sampleAgain()
	for _, g := range l.receiving {
		g.suppressed = true
		for _, s := range g.subs.List() {
			s.suppress()
		}
	}
}

// farewells is how many farewells a bus sends, a millisecond apart. They are not acknowledged; a publisher that misses
// all of them waits until the bus counts as silent.
const farewells = 5

// farewell sends a farewell to all publishers. It reports whether there are any.
func (l *Loop) farewell() (any bool) {
	now := l.now()
	for _, g := range l.receiving {
		g.r.Close(now)
		g.sendControl(now)
		any = any || len(g.r.Streams()) > 0
	}
	return any
}

// stop ends everything that waits for the loop, which has stopped running.
func (l *Loop) stop(err error) {
	l.mu.Lock()
	l.shutdown.err, l.shutdown.dead = err, true // no publication is added from now on
	l.mu.Unlock()
	// Kill all before freeing any: a publication may write into blocks that another one had.
	for _, p := range l.publications() {
		p.kill(l.closedError())
	}
	for _, p := range l.publications() {
		p.free()
	}
	l.hellos.free()
	if l.cfg.Signer != nil {
		l.cfg.Signer.Free(l.t)
	}
	l.cfg.stopped()
	l.windows.close()
	for _, g := range l.receiving {
		g.stop()
	}
}

// closedError returns why the loop accepts no calls any more.
func (l *Loop) closedError() error {
	if exited := (*exitedError)(nil); errors.As(l.shutdown.err, &exited) {
		return exited
	}
	if err := l.shutdown.err; err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("transport failed: %w", err)
	}
	return net.ErrClosed
}
