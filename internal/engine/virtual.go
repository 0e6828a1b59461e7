package engine

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"runtime"
	"time"

	"github.com/fanfaremq/fanfare/internal/gid"
	"github.com/fanfaremq/fanfare/internal/pattern"
	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/reliable"
)

// Virtual runs a loop in virtual time: the loop has no goroutine, and its owner calls Step. Calls that wait, such as
// Publish and Next, wait by Wait. If one goroutine runs at a time, the same calls give the same run.
type Virtual interface {
	// Now returns the loop's time. It is above 0, and does not go back.
	Now() reliable.Instant
	// Rand returns random bits.
	Rand() uint64
	// Go runs f beside its caller, as a goroutine would, but not before the caller waits or returns.
	Go(f func())
	// After calls f after d.
	After(d time.Duration, f func())
	// Wait returns when ready has returned true. Meanwhile Step is called when it is due, and what runs by Go continues.
	Wait(ready func() bool)
}

// Step does one turn of a loop with Config.Virtual. It never waits. Call it again at the returned deadline, when the
// transport has packets or events, and after Transport.Wake: it is then due at once.
func (l *Loop) Step() (deadline reliable.Instant) {
	if l.Ended() {
		return reliable.Never
	}
	l.watchdog.goroutine.Store(gid.Self())
	defer l.watchdog.goroutine.Store(0)
	now := l.now()
	if until := reliable.Instant(l.until.Load()); until > 0 {
		l.inbox.lain.Waited(now.Sub(l.slept), until.Sub(l.slept))
	}
	deadline, now, again, err := l.round(l.behind(), now)
	switch {
	case err != nil:
		l.stop(err)
		close(l.shutdown.done)
		return reliable.Never
	case again:
		return now
	}
	if deadline = min(deadline, now.Add(longestSleep)); !l.announce(deadline, false) {
		return now
	}
	l.slept = now
	return deadline
}

// clock is the loop's monotonic clock, and how to wait for something else: by goroutines and the system's timers, or in
// virtual time.
type clock struct {
	start   time.Time
	virtual Virtual          // nil: the system's clock
	slept   reliable.Instant // virtual: when Step returned last
}

func newClock() clock { return clock{start: time.Now().Add(-time.Second)} }

// now reads the clock. It is never zero.
func (c *clock) now() reliable.Instant {
	if c.virtual != nil {
		return c.virtual.Now()
	}
	return reliable.Instant(time.Since(c.start))
}

// wall returns the time of day.
func (c *clock) wall() time.Time {
	if c.virtual != nil {
		return time.Unix(0, int64(c.virtual.Now()))
	}
	return time.Now()
}

// maxProcs returns GOMAXPROCS. In virtual time it is 1, so the loop yields to no goroutine.
func (c *clock) maxProcs() int {
	if c.virtual != nil {
		return 1
	}
	return runtime.GOMAXPROCS(0)
}

// seed fills b with random bytes.
func (c *clock) seed(b []byte) {
	if c.virtual == nil {
		rand.Read(b) // it never fails
		return
	}
	for ; len(b) >= 8; b = b[8:] {
		binary.LittleEndian.PutUint64(b, c.virtual.Rand())
	}
}

// spawn runs f on a goroutine.
func (c *clock) spawn(f func()) {
	if c.virtual != nil {
		c.virtual.Go(f)
		return
	}
	go f()
}

// yield lets other goroutines run.
func (c *clock) yield() {
	if c.virtual == nil {
		runtime.Gosched()
		return
	}
	again := false
	c.virtual.Wait(func() bool {
		again = !again
		return !again
	})
}

// await receives from one of three channels, of which some may be nil, and returns its index.
func (c *clock) await(x, y, z <-chan struct{}) int {
	if c.virtual != nil {
		return c.awaitVirtual(x, y, z)
	}
	select {
	case <-x:
		return 0
	case <-y:
		return 1
	case <-z:
		return 2
	}
}

// awaitVirtual is await in virtual time: of several channels the first one. It is a function of its own, because it
// allocates.
func (c *clock) awaitVirtual(x, y, z <-chan struct{}) (index int) {
	got := func(ch <-chan struct{}, i int) bool {
		if ch == nil {
			return false
		}
		select {
		case <-ch:
			index = i
			return true
		default:
			return false
		}
	}
	c.virtual.Wait(func() bool { return got(x, 0) || got(y, 1) || got(z, 2) })
	return index
}

// timeout is context.WithTimeout.
func (c *clock) timeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if c.virtual == nil {
		return context.WithTimeout(ctx, d)
	}
	ctx, cancel := context.WithCancel(ctx)
	c.virtual.After(d, cancel)
	return ctx, cancel
}

// pause returns after d, or when ctx ends.
func (c *clock) pause(ctx context.Context, d time.Duration) {
	ctx, cancel := c.timeout(ctx, d)
	defer cancel()
	c.await(ctx.Done(), nil, nil)
}

// The functions below show a simulation, between two steps, what the protocol's core has.

// Look calls f with both layers of the publication's stream.
func (p *Publication) Look(f func(*reliable.Sender, *topics.Sender)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p.s, p.m)
}

// Waits reports whether a reply of the receiver would be accepted.
func (q *Inquiry) Waits(receiver uint64) bool {
	q.p.mu.Lock()
	defer q.p.mu.Unlock()
	return q.r.Waits(receiver)
}

// Receivers calls f with the receiver of each group, and the only subscription that it serves; nil: all others.
func (l *Loop) Receivers(f func(*Subscription, *reliable.Receiver, *topics.Receiver, *topics.Replies)) {
	for _, g := range l.receiving {
		f(g.owner, g.r, g.in, g.replies)
	}
}

// Counts is Stats.
func (l *Loop) Counts() stats.Bus {
	st := l.sharedStats()
	st.Groups = l.groupStats()
	return st
}

// Look is Heard.
func (s *Survey) Look(patterns []pattern.Pattern) Surveyed { return s.heard(patterns) }
