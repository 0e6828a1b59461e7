package driver

import (
	"errors"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/internal/logline"
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
		if len(l.inbox.batch.Trains) > 0 || len(l.inbox.batch.Events) > 0 || now >= deadline || l.kicked() {
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
	if !l.announce(deadline, rest) {
		return
	}
	wait := time.Duration(-1)
	if deadline != reliable.Never {
		if wait = deadline.Sub(l.now()); wait <= 0 {
			runtime.Gosched() // the goroutine it waits for may need the processor
			return
		}
	}
	if rest {
		l.rest(wait)
		return
	}
	if err := l.t.Wait(wait); err != nil && !errors.Is(err, net.ErrClosed) {
		l.say(&logline.WaitFailed, "err", err)
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
	case <-l.shutdown.done:
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
	if l.Ended() {
		return l.closedError()
	}
	l.commands.add(f)
	l.wakeBy(0)
	return nil
}

// commands are what others want the loop to do.
type commands struct {
	mu     sync.Mutex
	list   []func()    // under mu
	resume atomic.Bool // a cursor has caught up: streams go on
}

func (c *commands) add(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, f)
}

// run runs those that there are. It reports whether there were any. Loop only.
func (c *commands) run() bool {
	c.mu.Lock()
	run := c.list
	c.list = nil
	c.mu.Unlock()
	for _, f := range run {
		f()
	}
	return len(run) > 0
}

func (l *Loop) runCommands() bool {
	any := l.commands.run()
	if !l.commands.resume.Swap(false) {
		return any
	}
	now := l.now()
	for _, g := range l.receiving {
		g.tendLogs(now)
		g.r.Resume(now)
	}
	return true
}

// unneeded reports whether nothing can come that would have to be seen at once:
// nothing is subscribed to, and the bus is saturated.
func (l *Loop) unneeded() bool {
	if len(l.receiving) > 0 {
		return false
	}
	for _, p := range l.publications() {
		if !p.selfDriven {
			return false
		}
	}
	return true
}
